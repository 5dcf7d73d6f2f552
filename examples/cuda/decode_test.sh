#!/bin/sh
# decode_test.sh DECODE SMELT MODEL.pt2
set -eu
"$2" compile "$3" -o "$TEST_TMPDIR/kv_cache.smb" --cache-mode=off --quiet
"$1" "$TEST_TMPDIR/kv_cache.smb"
status=0
SMELT_CUDA_DRIVER=/nowhere/libcuda.so.1 "$1" "$TEST_TMPDIR/kv_cache.smb" cuda:0 2>"$TEST_TMPDIR/error" || status=$?
cat "$TEST_TMPDIR/error"
[ "$status" = 5 ]
grep -q "no CUDA driver" "$TEST_TMPDIR/error"
