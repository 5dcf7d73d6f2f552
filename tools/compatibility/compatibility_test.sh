#!/usr/bin/env bash
# Each bundle of an earlier version does what PyTorch did in the case of its model.
#   compatibility_test.sh SMELT
set -u
smelt=$1
failed=0
bundles=0
for bundle in tools/compatibility/*/*.smb; do
  "$smelt" run "$bundle" --case="testdata/$(basename "$bundle" .smb).case.safetensors" || { echo "$bundle: exit $?"; failed=1; }
  ((++bundles))
done
((bundles >= 2)) || { echo "only $bundles bundles were found"; failed=1; }
exit $failed
