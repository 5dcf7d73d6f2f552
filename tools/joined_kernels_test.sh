#!/bin/sh
# joined_kernels_test.sh SMELT MODEL.pt2: the image for a GPU has kernels that go on with a product, under the keys of the
# bundle's kernels, and is the same every time.
set -eu
for k in 1 2; do "$1" compile "$2" -o "$TEST_TMPDIR/$k.smb" --cache-mode=off --target=sm_90 --quiet; done
cmp "$TEST_TMPDIR/1.smb" "$TEST_TMPDIR/2.smb"
entries=$(grep -aoE 'smelt_product_float32_float32_then_[0-9a-f]{64}' "$TEST_TMPDIR/1.smb" | sort -u)
[ -n "$entries" ]
for entry in $entries; do
  "$1" inspect "$TEST_TMPDIR/1.smb" --json | grep -q "\"key\":\"${entry##*_}\""
done
