#!/usr/bin/env bash
# Operators of the user's own on the command line: --op-schema, --op-library and their exit codes.
set -u
smelt=$PWD/$1 opt=$PWD/$2 library=$PWD/$3 custom=$PWD/testdata/custom
cd "${TEST_TMPDIR:?}" || exit 1
failed=0

# expect CODE PATTERN COMMAND...: the exit code, and a pattern that the output (both streams) has.
expect() {
  local code=$1 pattern=$2 got=0 output
  shift 2
  output=$("$@" 2>&1) || got=$?
  if [[ $got != "$code" ]]; then
    echo "exit $got, expected $code: $*: $output"
    failed=1
  elif ! grep -qE -- "$pattern" <<<"$output"; then
    echo "no \"$pattern\" in the output of $*: $output"
    failed=1
  fi
}
compile() { "$smelt" compile "$@" --cache-mode=off --target=x86-64-v2; }

# Without the schemas all operators are listed, and the option that would help is named.
expect 4 'testops::clamp_ \(1 time: make_models.py:[0-9]*\).*testops::head.*--op-schema=FILE' compile "$custom/kinds.pt2" -o a.smb
expect 4 'testops::add_all_: no such operator is known; .*--op-schema' compile "$custom/written.pt2" -o a.smb
expect 3 'no_such.txt' compile "$custom/kinds.pt2" -o a.smb --op-schema=no_such.txt
printf '# one\nmylib::f(Tensor x) -> Tensor\nmylib::g(Tensor x\n' >bad.txt
expect 3 'bad.txt:3: ' compile "$custom/kinds.pt2" -o a.smb --op-schema=bad.txt
echo 'aten::mine(Tensor x) -> Tensor' >taken.txt
expect 3 'taken.txt:1: aten::mine: the namespace aten' compile "$custom/kinds.pt2" -o a.smb --op-schema=taken.txt
echo 'mylib::f(Tensor x) -> Tensor(*)' >wild.txt
expect 4 'wild.txt:1: mylib::f: result 0: it is annotated as \(\*\)' compile "$custom/kinds.pt2" -o a.smb --op-schema=wild.txt
cp "$custom/operators.txt" schemas.txt
expect 2 'which would be lost' compile "$custom/kinds.pt2" -o schemas.txt --op-schema=schemas.txt
# A schema that does not fit the archive's call.
sed 's/cap_(Tensor(a!) x, float high)/cap_(Tensor(a!) x)/' schemas.txt >other.txt
expect 3 'argument "high" is not one of testops::cap_' compile "$custom/written.pt2" -o a.smb --op-schema=other.txt

# Several files; the statistics say how the program runs.
grep head schemas.txt >head.txt
grep -v head schemas.txt >rest.txt
expect 0 '"eager_order":"testops::head.*an operator of the user.s own"' compile "$custom/kinds.pt2" -o kinds.smb --op-schema=head.txt,rest.txt --stats=json
expect 0 'ok; median' "$smelt" run kinds.smb --case="$custom/kinds.case.safetensors" --op-library="$library"
compile "$custom/kinds.pt2" -o again.smb --op-schema=schemas.txt && cmp kinds.smb again.smb || { echo "other bytes"; failed=1; }

# Missing operators are named, all of them, when a bundle is loaded.
expect 4 'kinds.smb: .*testops::head\(Tensor\(a\) x, SymInt n\) -> Tensor\(a\); testops::clamp_.*; testops::fill.out' "$smelt" run kinds.smb --case="$custom/kinds.case.safetensors"
expect 3 'no_such.so' "$smelt" run kinds.smb --case="$custom/kinds.case.safetensors" --op-library=no_such.so
expect 3 '' "$smelt" run kinds.smb --case="$custom/kinds.case.safetensors" --op-library=schemas.txt
expect 0 'testops::head\(Tensor\(a\) x, SymInt n\)' "$smelt" inspect kinds.smb --json

# A graph file holds the schemas itself; a text needs them.
expect 0 'testops::head' "$smelt" inspect "$custom/kinds.pt2" --op-schema=schemas.txt
expect 2 'has no effect on a bundle' "$smelt" inspect kinds.smb --op-schema=schemas.txt
cat >text.ir <<'END'
graph(%x : Float(3, strides=[1]), %y : Float(3, strides=[1])):
  %y1 : Float(3, strides=[1]) = aten::relu(%y)
   = mylib::add_(%x, %y1)
  return (%x, %y1)
END
echo 'mylib::add_(Tensor(a!) x, Tensor y) -> ()' >add.txt
expect 0 '' compile text.ir -o text.smb --op-schema=add.txt
expect 4 'mylib::add_' compile text.ir -o text.smb
expect 0 '' "$opt" text.ir -o text.smg --op-schema=add.txt
expect 0 '' compile text.smg -o graph.smb
echo 'has_writers %x
has_writers %y1' >queries
[[ $("$opt" text.smg --alias-queries=queries | tr '\n' ' ') == 'true false ' ]] || { echo "wrong writers"; failed=1; }

# A batch.
mkdir models
cp "$custom"/kinds.pt2 "$custom"/dynamic.pt2 models/
expect 0 '' "$smelt" convert models --out-dir=out --op-schema=schemas.txt --target=x86-64-v2 --cache-mode=off
expect 3 'bad.txt:3' "$smelt" convert models --out-dir=out --op-schema=bad.txt --target=x86-64-v2
expect 0 'ok; median' "$smelt" run out/dynamic.smb --case="$custom/dynamic.case.safetensors" --op-library="$library"

exit $failed
