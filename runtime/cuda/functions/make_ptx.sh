#!/usr/bin/env bash
# Makes functions.ptx.h of functions.cu, and choose.ptx.h of choose.cu, with clang 22. Neither CUDA's headers nor its
# libraries are needed.
#   runtime/cuda/functions/make_ptx.sh
# The PTX is for the oldest GPU and the oldest driver that the runtime takes: compute capability 7.5, CUDA 11.4.
set -euo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ln -s "$(cd ../../.. && pwd)" "$scratch/smelt"

# make NAME CONSTANT
make() {
  "${CLANG:-clang++-22}" -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 --cuda-feature=+ptx74 -nocudainc -nocudalib \
    -Wno-unknown-cuda-version -O2 -std=c++20 -I"$scratch" -S "$1.cu" -o "$scratch/$1.ptx"
  local guard="SMELT_RUNTIME_CUDA_FUNCTIONS_${1^^}_PTX_H_"
  {
    echo "// Made by make_ptx.sh of $1.cu. Do not edit."
    echo "#ifndef $guard"
    echo "#define $guard"
    echo
    echo 'namespace smelt::cuda::functions {'
    echo
    echo '// clang-format off'
    echo "inline constexpr char $2[] = R\"ptx("
    sed -E 's#[ \t]*//.*$##; s/[ \t]+$//; /^$/d' "$scratch/$1.ptx"
    echo ')ptx";'
    echo '// clang-format on'
    echo
    echo '}  // namespace smelt::cuda::functions'
    echo
    echo "#endif  // $guard"
  } >"$1.ptx.h"
}
make functions kPtx
make choose kChoosePtx
