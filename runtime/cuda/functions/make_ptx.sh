#!/usr/bin/env bash
# Makes functions.ptx.h of functions.cu, with clang 22. Neither CUDA's headers nor its libraries are needed.
#   runtime/cuda/functions/make_ptx.sh
# The PTX is for the oldest GPU and the oldest driver that the runtime takes: compute capability 7.5, CUDA 11.4.
set -euo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ln -s "$(cd ../../.. && pwd)" "$scratch/smelt"
"${CLANG:-clang++-22}" -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 --cuda-feature=+ptx74 -nocudainc -nocudalib \
  -Wno-unknown-cuda-version -O2 -std=c++20 -I"$scratch" -S functions.cu -o "$scratch/functions.ptx"
{
  echo '// Made by make_ptx.sh of functions.cu. Do not edit.'
  echo '#ifndef SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_PTX_H_'
  echo '#define SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_PTX_H_'
  echo
  echo 'namespace smelt::cuda::functions {'
  echo
  echo '// clang-format off'
  echo 'inline constexpr char kPtx[] = R"ptx('
  sed -E 's#[ \t]*//.*$##; s/[ \t]+$//; /^$/d' "$scratch/functions.ptx"
  echo ')ptx";'
  echo '// clang-format on'
  echo
  echo '}  // namespace smelt::cuda::functions'
  echo
  echo '#endif  // SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_PTX_H_'
} >functions.ptx.h
