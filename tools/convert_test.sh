#!/usr/bin/env bash
# Batches from outside (docs/batch.md): what is mirrored, refused, skipped, logged, and what a killed run leaves behind.
set -u
smelt=$PWD/$1
models=$PWD/testdata
cd "${TEST_TMPDIR:?}" || exit 1
failed=0
fail() { echo "$*"; failed=1; }

# expect CODE PATTERN COMMAND...: the exit code, and a pattern that the output (both streams) has.
expect() {
  local code=$1 pattern=$2 got=0 output
  shift 2
  output=$("$@" 2>&1) || got=$?
  [[ $got == "$code" ]] || fail "exit $got, expected $code: $*: $output"
  grep -qE -- "$pattern" <<<"$output" || fail "no \"$pattern\" in the output of $*: $output"
}
convert() { "$smelt" convert "$@" --target=x86-64-v2 --cache-dir="$PWD/cache"; }
# statuses LOG: "converted skipped failed" as counts.
statuses() {
  local s
  for s in converted skipped failed; do grep -c "\"status\":\"$s\"" "$1"; done | paste -sd' '
}
leftovers() { find "$1" -name '*.tmp.*'; }

mkdir -p in/deep/er
cp "$models"/{relu_input,digits}.pt2 in/
cp "$models/kv_cache.pt2" in/deep/er/
echo 'graph(%x : Float(4, 8)): %y : Tensor = aten::relu(%x) return (%y)' >in/deep/text.ir

# Paths are mirrored; the bytes are those of compile; one line a model.
expect 0 '4 models: 4 converted, 0 skipped, 0 failed' convert in --out-dir=out --jobs=2 --log=log.jsonl --report=report.html
for name in relu_input digits deep/er/kv_cache deep/text; do
  model=in/$name.pt2
  [[ -e $model ]] || model=in/$name.ir
  "$smelt" compile "$model" -o one.smb --target=x86-64-v2 --cache-mode=off || failed=1
  cmp one.smb "out/$name.smb" || failed=1
done
[[ $(statuses log.jsonl) == "4 0 0" ]] || fail "$(cat log.jsonl)"
for field in model bundle status exit_code ms model_bytes bundle_bytes kernels_compiled kernels_from_cache unsupported; do
  [[ $(grep -c "\"$field\":" log.jsonl) == 4 ]] || fail "field $field: $(cat log.jsonl)"
done
# A page of its own: nothing is fetched.
grep -q 'deep/er/kv_cache' report.html || fail "no kv_cache in the report"
grep -E '(https?:|src=|<script|<link|@import|url\()' report.html && failed=1

# Skipped by content, not by date.
touch in/*.pt2
expect 0 '0 converted, 4 skipped' convert in --out-dir=out --log=log.jsonl
[[ $(statuses log.jsonl) == "0 4 0" ]] || fail "$(cat log.jsonl)"
echo 'graph(%x : Float(4, 8)): %y : Tensor = aten::neg(%x) return (%y)' >in/deep/text.ir
touch -d '2001-01-01' in/deep/text.ir
expect 0 '1 converted, 3 skipped' convert in --out-dir=out
# Another option is another bundle; a bundle that was lost or damaged is made again.
expect 0 '4 converted' convert in --out-dir=out --no-fuse
expect 0 '4 converted' convert in --out-dir=out
rm out/digits.smb
truncate -s -1 out/relu_input.smb
printf 'x' | dd of=out/deep/text.smb bs=1 seek=70 conv=notrunc 2>/dev/null
expect 0 '3 converted, 1 skipped' convert in --out-dir=out
cmp one.smb out/deep/text.smb && fail "the other text model's bundle"

# A list; a file alone; names that collide.
printf '%s\n' '# two of them' in/relu_input.pt2 '' in/deep >list
expect 0 '3 models: 3 converted' convert @list --out-dir=listed
[[ -e listed/in/relu_input.smb && -e listed/er/kv_cache.smb && -e listed/text.smb ]] || fail "$(find listed)"
expect 0 '1 model: 1 converted' convert "$PWD/in/digits.pt2" --out-dir=alone
[[ -e alone/digits.smb ]] || fail "$(find alone)"
cp in/deep/text.ir in/digits.ir
expect 2 'in/digits.(ir|pt2) and in/digits.(ir|pt2) would both become digits.smb' convert in --out-dir=collide
[[ ! -e collide/digits.smb ]] || fail "a collision was converted"
rm in/digits.ir
expect 2 'expected' convert in
expect 2 'ends in .pt2' convert list --out-dir=x
expect 3 'No such file' convert no_such.pt2 --out-dir=x
# A path that does not exist stops a batch, unless it is to keep going.
expect 8 '2 models: 1 converted, 0 skipped, 1 failed' convert no_such.pt2 in/digits.pt2 --out-dir=missing --keep-going --log=log.jsonl
grep -q '"model":"no_such.pt2".*"status":"failed","exit_code":3.*No such file' log.jsonl || fail "$(cat log.jsonl)"
[[ -e missing/in/digits.smb ]] || fail "$(find missing)"
[[ -z $(convert in/digits.pt2 --out-dir=missing --quiet 2>&1) ]] || fail "--quiet is not quiet"
: >out.txt
expect 6 'out.txt' convert in --out-dir=out.txt/x

# Symbolic links are followed; what is left out is named.
mkdir -p linked/far far_away
cp in/deep/text.ir linked/a.ir
cp in/deep/text.ir far_away/b.ir
ln -s a.ir linked/c.ir
ln -s ../far_away linked/near
ln -s .. linked/far/back
ln -s nowhere.ir linked/dangling.ir
expect 0 '3 models: 3 converted' convert linked --out-dir=links
expect 0 'back is not followed: it leads back to' convert linked --out-dir=links
expect 0 'dangling.ir is not converted: it leads to no file' convert linked --out-dir=links
[[ -e links/a.smb && -e links/c.smb && -e links/near/b.smb ]] || fail "$(find links)"
mkdir empty
expect 2 'no models in empty' convert empty --out-dir=x

# A folder of methods becomes one bundle, with the bytes of compile, whose methods are called as the files are.
mkdir -p fleet/llm.methods empty.methods
for method in prefill decode; do cp "$models/methods/cache.$method.pt2" "fleet/llm.methods/$method.pt2"; done
cp in/deep/text.ir fleet/
expect 0 '2 models: 2 converted' convert fleet --out-dir=llms --log=log.jsonl
"$smelt" compile --method decode=fleet/llm.methods/decode.pt2 --method prefill=fleet/llm.methods/prefill.pt2 -o methods.smb \
  --target=x86-64-v2 --cache-mode=off || failed=1
cmp methods.smb llms/llm.smb || failed=1
grep -q "\"model\":\"fleet/llm.methods\".*\"model_bytes\":$(cat fleet/llm.methods/* | wc -c)," log.jsonl || fail "$(cat log.jsonl)"
expect 0 '0 converted, 2 skipped' convert fleet --out-dir=llms
expect 0 '1 model: 1 converted' convert fleet/llm.methods/ --out-dir=lone
[[ -e lone/fleet/llm.smb ]] || fail "$(find lone)"
expect 2 '--log .*: another file expected: this one is also the model' convert fleet --out-dir=llms --log=fleet/llm.methods/decode.pt2
cp in/deep/text.ir fleet/llm.methods/pre-fill.ir
expect 2 'pre-fill.ir: .* is called as its method is' convert fleet --out-dir=llms
mv fleet/llm.methods/pre-fill.ir fleet/llm.methods/prefill.ir
expect 2 'would both become the method prefill' convert fleet --out-dir=llms
expect 2 'no models in empty.methods' convert empty.methods --out-dir=llms

# No output is another's, or a model.
expect 2 '--report links/a.smb: another file expected: this one is also the bundle' convert linked --out-dir=links --report=links/a.smb
expect 2 '--log .*: another file expected: this one is also the bundle' convert linked --out-dir=links --log=links/./near/b.smb
expect 2 '--log .*: another file expected: this one is also the model' convert linked --out-dir=links --log=linked/a.ir
rm links/a.smb && ln -s "$PWD/linked/a.ir" links/a.smb
expect 2 'the bundle links/a.smb: another file expected: this one is also the model' convert linked --out-dir=links
rm links/a.smb
"$smelt" inspect linked/a.ir >/dev/null || fail "the model is lost"

# A temporary file that another process writes stays; one that nobody writes goes.
: >links/a.smb.tmp.1.0
exec 8>links/c.smb.tmp.1.0
flock 8
expect 0 '3 models' convert linked --out-dir=links
[[ ! -e links/a.smb.tmp.1.0 && -e links/c.smb.tmp.1.0 ]] || fail "$(find links)"
exec 8>&-

# A bad model harms no other; all failures are told.
head -c 3000 in/digits.pt2 >in/cut.pt2
echo 'graph(%x : Float(4, 8)): %a : Tensor = mine::spline(%x) %b : Tensor = mine::spline(%a) return (%b)' >in/unknown.ir
expect 8 '6 models: 4 converted, 0 skipped, 2 failed' convert in --out-dir=some --keep-going --log=log.jsonl --report=report.html
[[ $(statuses log.jsonl) == "4 0 2" ]] || fail "$(cat log.jsonl)"
grep -q '"model":"in/cut.pt2".*"status":"failed","exit_code":3' log.jsonl || fail "$(cat log.jsonl)"
grep -q '"model":"in/unknown.ir".*"exit_code":4.*"unsupported":\[{"operator":"mine::spline","count":2}\]' log.jsonl || fail "$(cat log.jsonl)"
grep -q 'mine::spline' report.html || fail "no mine::spline in the report"
# Failures come first, then what they lack, then all models.
[[ $(grep -oE '<h2>[A-Za-z ]+' report.html | tr '\n' ' ') == '<h2>Failures <h2>Unsupported operators <h2>Models <h2>Kernels shared among models '* ]] || fail "$(grep '<h2>' report.html)"
grep -qE 'id="made">smelt [0-9.]+: bundle format [0-9]+, kernels by .*targets x86-64-v2' report.html || fail "no version in the report"
expect 8 'not begun' convert in --out-dir=first --jobs=1
rm in/cut.pt2 in/unknown.ir

# On a terminal one line that changes; elsewhere none.
script -qec "'$smelt' convert in --out-dir=seen --target=x86-64-v2 --cache-mode=off" /dev/null >seen.txt
grep -q $'\r' seen.txt && grep -qE 'of 4 models, 0 failed; kernels: [0-9]+ compiled' seen.txt || fail "$(cat seen.txt)"
convert in --out-dir=out | grep -q $'\r' && fail "a carriage return in a pipe"

# Killed in the middle, by force and by Ctrl-C: what is there is whole, and the next run goes on.
mkdir many
for i in $(seq 40); do sed "s/8/$((8 + i))/" <<<'graph(%x : Float(4, 8)): %y : Tensor = aten::relu(%x) return (%y)' >"many/m$i.ir"; done
for i in $(seq 20); do cp "$models/transformer_encoder.pt2" "many/t$i.pt2"; done
for how in KILL INT; do
  rm -rf killed
  rm -f killed.html
  "$smelt" convert many --out-dir=killed --jobs=2 --target=x86-64-v2 --cache-mode=off --report=killed.html >killed.txt 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    (($(find killed -name '*.smb' 2>/dev/null | wc -l) >= 3)) && break
    sleep 0.02
  done
  kill -"$how" $pid
  status=0
  wait $pid 2>/dev/null || status=$?
  [[ $how == KILL && $status == 137 || $how == INT && $status == 130 ]] || fail "$how: exit $status: $(cat killed.txt)"
  for _ in $(seq 100); do flock -n killed/.smelt/lock true && break; sleep 0.05; done  # the workers end, too
  [[ $how == KILL ]] || grep -q ' not begun; ' killed.html || fail "no report of an interrupted run: $(cat killed.txt)"
  [[ $how == KILL || -z $(leftovers killed) ]] || fail "left behind: $(leftovers killed)"
  before=$(find killed -name '*.smb' | wc -l)
  ((before >= 3 && before < 60)) || fail "$how: $before bundles were there"
  find killed -name '*.smb' -print0 | xargs -0 -n1 "$smelt" inspect >/dev/null || fail "$how: a bundle is not whole"
  expect 0 "60 models: [0-9]+ converted, ($((before - 2))|$((before - 1))|$before) skipped, 0 failed" convert many --out-dir=killed --jobs=2
  [[ -z $(leftovers killed) ]] || fail "left behind: $(leftovers killed)"
  [[ $(find killed -name '*.smb' | wc -l) == 60 ]] || fail "$how: not all bundles"
done

# Two at once in one folder.
(
  flock 9
  expect 6 'another smelt convert is at work' convert in --out-dir=out
  exit $failed
) 9>out/.smelt/lock || failed=1

# Shards hold each model once, work in one folder side by side, and make the same bytes; their logs become one report.
for i in 1 2 3; do convert many --out-dir=sharded --shard=$i/3 --log=shard$i.jsonl >shard$i.txt & done
wait
[[ $(cat shard?.txt | grep -c ' 0 failed') == 3 ]] || fail "$(cat shard?.txt)"
[[ $(cat shard?.jsonl | wc -l) == 60 && $(cat shard?.jsonl | grep -o '"model":"[^"]*"' | sort -u | wc -l) == 60 ]] || fail "not each model once"
for i in 1 2 3; do [[ -s shard$i.jsonl ]] || fail "shard $i has no model"; done
diff -r -x .smelt killed sharded || fail "the shards show"
expect 0 '' "$smelt" report shard1.jsonl shard2.jsonl shard3.jsonl -o merged.html
[[ $(grep -c '<td class="converted">' merged.html) == 60 ]] || fail "not all models in the merged report"
expect 2 'many/.* is also in shard1.jsonl; logs of different shards expected' "$smelt" report shard1.jsonl shard1.jsonl -o merged.html
# Where other models come and go, a model stays in its shard.
mkdir few && cp many/m{7,8,9}.ir few/
for i in 1 2 3; do convert few --out-dir=fewer --shard=$i/3 --log=few$i.jsonl >/dev/null || failed=1; done
for name in m7 m8 m9; do
  [[ $(grep -l "/$name.ir" few?.jsonl | tr -dc 0-9) == $(grep -l "/$name.ir" shard?.jsonl | tr -dc 0-9) ]] || fail "$name is in another shard"
done
# A shard may be empty, a batch may not; one shard twice, or a shard beside the whole, is refused.
expect 0 '0 models: 0 converted' convert in/digits.pt2 --out-dir=empty_shard --shard="$(for i in 1 2; do
  convert in/digits.pt2 --out-dir=probe --shard=$i/2 | grep -q '^0 models' && echo $i/2
done)"
for bad in 0/3 4/3 1 1/0 1/3/5 -1/3 a/b; do expect 2 "I/N expected" convert in --out-dir=x --shard=$bad; done
(
  flock 9
  expect 6 'another smelt convert is at work' convert many --out-dir=sharded --shard=2/3
  expect 0 '0 failed' convert many --out-dir=sharded --shard=1/3
  exit $failed
) 9>sharded/.smelt/lock.2-of-3 || failed=1
(
  flock -s 9
  expect 6 'another smelt convert is at work' convert many --out-dir=sharded
  exit $failed
) 9>sharded/.smelt/lock || failed=1

# However many at a time: the same bytes.
convert many --out-dir=single --jobs=1 >/dev/null || failed=1
diff -r -x .smelt killed single || fail "the number of jobs shows"
exit $failed
