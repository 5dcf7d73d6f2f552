#!/usr/bin/env bash
# The generator's models convert, all of them, and share their kernels.
set -u
make_models=$PWD/$1
smelt=$PWD/$2
cd "${TEST_TMPDIR:?}" || exit 1
"$make_models" models 60 3e6 || exit 1
[[ $(find models -name '*.pt2' | wc -l) == 30 && $(find models -name '*.ir' | wc -l) == 30 ]] || exit 1
"$smelt" convert models --out-dir=out --jobs=2 --cache-dir="$PWD/cache" --log=log.jsonl | tail -1 | tee summary || exit 1
grep -q '60 models: 60 converted, 0 skipped, 0 failed' summary || exit 1
# At least nine of ten kernels were there already.
compiled=$(grep -oE '"kernels_compiled":[0-9]+' log.jsonl | cut -d: -f2 | awk "{ n += \$1 } END { print n }")
reused=$(grep -oE '"kernels_from_cache":[0-9]+' log.jsonl | cut -d: -f2 | awk "{ n += \$1 } END { print n }")
echo "$compiled compiled, $reused reused"
((reused > 0))
