#!/usr/bin/env bash
# The folder's promises: every model has its case, each file is below 4 MB, all below 16 MB (a checkout stays small; 1,000 scenarios of
# 13 KB are most of it), and no path of a machine is in them.
set -u
cd "$(dirname "$0")" || exit 1
failed=0
fail() { echo "$1"; failed=1; }

models=0
total=0
for file in *.pt2 *.ir *.safetensors *.txt methods/* scenarios/*; do
  [ -e "$file" ] || continue
  size=$(stat -L -c %s "$file")
  total=$((total + size))
  [ "$size" -lt 4000000 ] || fail "$file has $size bytes: at most 4,000,000 are allowed"
  case "$file" in
    methods/*.pt2)
      models=$((models + 1))
      [ -e "${file%.*.pt2}.case.safetensors" ] || fail "$file has no case beside it"
      ;;
    *.pt2 | *.ir)
      models=$((models + 1))
      [ -e "${file%.*}.case.safetensors" ] || fail "$file has no case beside it"
      ;;
  esac
  if grep -q -a -E '"/(home|root|usr|tmp|work|opt|var|mnt)/' "$file"; then fail "$file names a path of the machine it was made on"; fi
done
[ "$total" -lt 16000000 ] || fail "all files have $total bytes: at most 16,000,000 are allowed"
[ "$models" -ge 250 ] || fail "only $models models were found"
echo "$models models, $total bytes"
exit $failed
