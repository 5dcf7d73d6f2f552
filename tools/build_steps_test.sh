#!/usr/bin/env bash
# The steps that the Bazel rules run: stats that are the same everywhere, kernels in steps, typed headers, reports.
set -u
smelt=$PWD/$1
models=$PWD/testdata
cd "${TEST_TMPDIR:?}" || exit 1
failed=0
fail() { echo "$*"; failed=1; }
expect() {
  local code=$1 pattern=$2 got=0 output
  shift 2
  output=$("$@" 2>&1) || got=$?
  [[ $got == "$code" ]] || fail "exit $got, expected $code: $*: $output"
  grep -qE -- "$pattern" <<<"$output" || fail "no \"$pattern\" in the output of $*: $output"
}
targets=--target=x86-64-v2,x86-64-v3

# Stats: the same with a cold and a warm cache, from another folder; no path, no time.
mkdir -p elsewhere
cp "$models/kv_cache.pt2" elsewhere/
"$smelt" compile "$models/kv_cache.pt2" -o a.smb --stats-file=a.json --cache-dir="$PWD/cache" $targets || failed=1
"$smelt" compile elsewhere/kv_cache.pt2 -o b.smb --stats-file=b.json --cache-dir="$PWD/cache" --threads=1 $targets || failed=1
cmp a.json b.json || failed=1
cmp a.smb b.smb || failed=1
grep -qE '/|_ms"|from_cache|kernels_compiled' a.json && fail "$(cat a.json)"

# Plan, pick, compile, link: the bundle that compile makes at once, each kernel compiled once.
cat >relu.ir <<<'graph(%x : Float(4, 8)): %y : Tensor = aten::relu(%x) return (%y)'
sed 's/4, 8/5, 9/' relu.ir >relu_too.ir   # another size, the same kernel
sed 's/relu/tanh/' relu.ir >tanh.ir
for m in relu relu_too tanh; do "$smelt" kernels plan $m.ir -o $m.specs $targets || failed=1; done
cmp relu.specs relu_too.specs || failed=1
"$smelt" kernels pick relu.specs relu_too.specs tanh.specs -o s0.specs,s1.specs,s2.specs || failed=1
[[ $(cat s?.specs | wc -l) == 4 ]] || fail "2 kernels for 2 targets expected: $(cat s?.specs)"
[[ $(cat s?.specs | sort) == "$(sort -u relu.specs tanh.specs)" ]] || fail "picked: $(cat s?.specs)"
for i in 0 1 2; do "$smelt" kernels compile s$i.specs -o s$i.kernels --cache-mode=off || failed=1; done
for m in relu relu_too tanh; do
  "$smelt" compile $m.ir -o linked.smb --kernels=s0.kernels,s1.kernels,s2.kernels $targets || failed=1
  "$smelt" compile $m.ir -o whole.smb --cache-mode=off $targets || failed=1
  cmp linked.smb whole.smb || failed=1
done
# The kernels of several methods are those that their bundle asks for.
methods="--method prefill=$models/methods/cache.prefill.pt2 --method decode=$models/methods/cache.decode.pt2"
"$smelt" kernels plan $methods -o methods.specs $targets || failed=1
"$smelt" kernels compile methods.specs -o methods.kernels --cache-mode=off || failed=1
"$smelt" compile $methods -o linked.smb --kernels=methods.kernels $targets || failed=1
"$smelt" compile $methods -o whole.smb --cache-mode=off $targets || failed=1
cmp linked.smb whole.smb || failed=1
expect 2 'plan: a.ir: with --method every model has the name of a method' "$smelt" kernels plan a.ir $methods -o x.specs
expect 2 'two methods are called "prefill"' "$smelt" kernels plan $methods --method prefill=relu.ir -o x.specs
expect 2 'an output would replace the model' "$smelt" kernels plan --method a=relu.ir --method b=tanh.ir -o tanh.ir
expect 2 '--method has no effect on kernels compile' "$smelt" kernels compile methods.specs -o x.kernels --method a=relu.ir
: >none.kernels
expect 3 'is in none of the files' "$smelt" compile relu.ir -o x.smb --kernels=none.kernels
cat s?.kernels >all.kernels
printf 'x' | dd of=all.kernels bs=1 seek=2000 conv=notrunc 2>/dev/null
expect 3 'all.kernels: the kernel at byte' "$smelt" compile relu.ir -o x.smb --kernels=all.kernels
echo '{}' >bad.specs
expect 3 'bad.specs:1' "$smelt" kernels compile bad.specs -o x.kernels
"$smelt" kernels plan relu.ir -o plan $targets && "$smelt" kernels plan tanh.ir -o plan $targets || fail "the word plan is no file"
expect 2 'plan, pick or compile' "$smelt" kernels frobnicate x -o y

# A dead server is no worse than none.
expect 0 'going on without it' "$smelt" compile relu.ir -o x.smb --cache-mode=off --remote-cache=http://127.0.0.1:1
"$smelt" compile relu.ir -o y.smb --cache-mode=off || failed=1
cmp x.smb y.smb || failed=1
expect 2 'a URL of http' "$smelt" compile relu.ir -o x.smb --remote-cache=ftp://x

# Typed headers.
"$smelt" cc a.smb --namespace=my::kv --include=m/kv.h --header=kv.h --source=kv.cc --object=kv.o || failed=1
for line in 'namespace my::kv {' 'smelt::TensorOf<float, 1, 1, 64> x;' 'smelt::TensorOf<int64_t, 1> position;'; do
  grep -qF "$line" kv.h || fail "no \"$line\" in $(cat kv.h)"
done
for line in 'struct States {' 'smelt::TensorOf<float, 1, 4, 32, 16> k_cache;' 'absl::StatusOr<States> states() const;'; do
  grep -qF "$line" kv.h || fail "no \"$line\" in $(cat kv.h)"
done
grep -qF 'InField("output \"linear_1\"", o0.status())' kv.cc || fail "$(cat kv.cc)"
"$smelt" compile "$models/dynamic_batch.pt2" -o d.smb $targets --cache-mode=off || failed=1
"$smelt" cc d.smb --namespace=d --include=d.h --header=d.h --source=d.cc || failed=1
grep -qF 'smelt::TensorOf<float, smelt::kAnySize' d.h || fail "$(cat d.h)"
grep -qF 'kBundlePath' d.h || fail "$(cat d.h)"
expect 2 'namespace such as my::models' "$smelt" cc a.smb --namespace=class --include=x.h --header=x.h --source=x.cc

# Reports: of the same bundles the same page.
"$smelt" report a.smb d.smb -o one.html && "$smelt" report b.smb d.smb -o two.html || failed=1
cmp one.html two.html || failed=1
grep -q '<td>dynamic_batch</td>' one.html || fail "no dynamic_batch in the report"
exit $failed
