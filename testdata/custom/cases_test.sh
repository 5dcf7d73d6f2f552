#!/usr/bin/env bash
# Each bundle does what PyTorch did on the case beside its model.
#   cases_test.sh SMELT OPERATORS.so BUNDLE.smb...
set -euo pipefail
smelt=$1 operators=$2
shift 2
(($# == 4)) || { echo "FAIL: $# bundles, 4 expected" >&2; exit 1; }
for bundle; do
  name=$(basename "$bundle" .smb)
  echo "$name"
  "$smelt" run "$bundle" --case="testdata/custom/$name.case.safetensors" --op-library="$operators"
done
