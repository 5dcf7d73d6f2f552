#!/bin/sh
# functions_toolkit_test.sh FUNCTIONS.ptx.h CHOOSE.ptx.h PTXAS
set -eu
ptx_of() { sed -n '/R"ptx(/,/^)ptx"/p' "$1" | sed '1d;$d'; }
ptx_of "$1" >"$TEST_TMPDIR/functions.ptx"
ptx_of "$2" >"$TEST_TMPDIR/choose.ptx"
for entry in smelt_move smelt_zero smelt_put_back smelt_copy smelt_put_back_items smelt_check_indices; do
  grep -q "^\.visible \.entry $entry(" "$TEST_TMPDIR/functions.ptx"
done
grep -q "^\.visible \.entry smelt_choose(" "$TEST_TMPDIR/choose.ptx"
# Nothing but the driver's function is left to link.
test "$(grep -c "^\.extern" "$TEST_TMPDIR/choose.ptx")" = 1
grep -q "^\.extern \.func cudaGraphSetConditional" "$TEST_TMPDIR/choose.ptx"
for arch in sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_100 sm_103 sm_110 sm_120; do
  "$3" -arch="$arch" "$TEST_TMPDIR/functions.ptx" -o "$TEST_TMPDIR/functions.cubin"
  "$3" -arch="$arch" --compile-only "$TEST_TMPDIR/choose.ptx" -o "$TEST_TMPDIR/choose.cubin"
done
