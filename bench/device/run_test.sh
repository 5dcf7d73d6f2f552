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
SMELT_BIN=$work/bin SMELT_DEVICE_FUZZ=0 SMELT_DEVICE_ANSWERS=0 SMELT_DEVICE_MODELS=$work/testdata SMELT_TORCH_PYTHON='' \
  "$run" prepare "$work/out" x86-64-v3
ls "$work/out" "$work/out/cases/testdata"

# On the CPU all holds: only the report is of interest.
SMELT_DEVICE=cpu SMELT_DEVICE_SECONDS=60 PATH=/usr/bin:/bin "$work/out/run.sh" "$work/cpu"
grep -q '^| testdata | 1 | 0 | 0 |' "$work/cpu.md"
grep -q '"passed": 1' "$work/cpu.json"
# Each row of a table has as many cells as its head, and the models' times are there.
well_formed() {
  python3 - "$1" <<'PYTHON'
import json, re, sys
json.load(open(sys.argv[1] + ".json"))
cells = None
for line in open(sys.argv[1] + ".md"):
    here = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
    assert cells is None or here is None or here == cells, line
    cells = here
PYTHON
}
well_formed "$work/cpu"
grep -q '^| kv_cache | [0-9]' "$work/cpu.md"

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
well_formed "$work/fake"

# Errors may hold what separates cells and lines.
cat >"$work/part.json" <<'JSON'
{"kind": "measure", "copy_gb_per_s": "no | copy", "left_out": 0,
 "rows": [{"row": 5, "name": "a", "error": "first | line\nsecond line"}]}
JSON
echo '{"kind": "check", "name": "b", "failures": [{"case": "c", "what": "x\n# y"}]}' >"$work/other.json"
"$device_run" report "$work/odd.json" "$work/odd.md" "$work/part.json" "$work/other.json" "$work/nowhere.json"
well_formed "$work/odd"
grep -q '^| 5 | a | first \\| line second line |' "$work/odd.md"
grep -q '^- c: x # y$' "$work/odd.md"
grep -q '^| nowhere | no result |' "$work/odd.md"
