#!/bin/sh
# functions_toolkit_test.sh FUNCTIONS.ptx.h PTXAS
set -eu
sed -n '/R"ptx(/,/^)ptx"/p' "$1" | sed '1d;$d' >"$TEST_TMPDIR/functions.ptx"
for entry in smelt_move smelt_zero smelt_put_back smelt_copy smelt_check_indices; do
  grep -q "^\.visible \.entry $entry(" "$TEST_TMPDIR/functions.ptx"
done
for arch in sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_100 sm_103 sm_110 sm_120; do
  "$2" -arch="$arch" "$TEST_TMPDIR/functions.ptx" -o "$TEST_TMPDIR/functions.cubin"
done
