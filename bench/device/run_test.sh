#!/usr/bin/env bash
# run_test.sh RUN.sh DEVICE_RUN SMELT LIBCUDA MODEL.pt2 CASE: both halves of run.sh, the second one without a driver, and
# with the driver of the tests, which finds no code of kernels.
set -euo pipefail
run=$1 device_run=$PWD/$2 smelt=$PWD/$3 driver=$PWD/$4 model=$5 case=$6
work=$TEST_TMPDIR
mkdir -p "$work/bin/tools" "$work/bin/bench/device" "$work/testdata"
ln -s "$smelt" "$work/bin/tools/smelt"
ln -s "$device_run" "$work/bin/bench/device/device_run"
cp "$model" "$case" "$work/testdata/"
SMELT_BIN=$work/bin SMELT_DEVICE_FUZZ=0 SMELT_DEVICE_MODELS=$work/testdata SMELT_TORCH_PYTHON='' \
  "$run" prepare "$work/out" x86-64-v3
ls "$work/out" "$work/out/cases/testdata"

# On the CPU all holds: only the report is of interest.
SMELT_DEVICE=cpu SMELT_DEVICE_SECONDS=60 PATH=/usr/bin:/bin "$work/out/run.sh" "$work/cpu"
grep -q '^| testdata | 1 | 0 | 0 |' "$work/cpu.md"
grep -q '"passed": 1' "$work/cpu.json"

status=0
SMELT_CUDA_DRIVER=/nowhere/libcuda.so.1 "$work/out/run.sh" "$work/none" 2>"$work/error" || status=$?
cat "$work/error"
[[ $status == 5 && ! -e $work/none.json ]]
grep -q 'no CUDA driver: /nowhere/libcuda.so.1' "$work/error"

status=0
SMELT_CUDA_DRIVER=$driver SMELT_DEVICE_SECONDS=60 PATH=/usr/bin:/bin "$work/out/run.sh" "$work/fake" || status=$?
[[ $status == 1 ]]
grep -q '^| testdata | 0 | 1 | 0 |' "$work/fake.md"
grep -q "the bundle has no code for this GPU\|compute capability" "$work/fake.md"
