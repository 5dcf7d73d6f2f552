#!/usr/bin/env bash
# Questions to the alias database as text, its pictures, and the passes that edit over it.
#   smelt_opt_test.sh SMELT_OPT
set -euo pipefail
opt=$PWD/$1
cd "$(mktemp -d)"
fail() { echo "FAIL: $*" >&2; exit 1; }
cat > g.ir <<'END'
graph(%x : Float(4, 8, strides=[8, 1]), %i : int):  # as PyTorch prints it
  %zero : int = prim::Constant[value=0]() # file.py:3:4
  %one : int = prim::Constant[value=1]()
  %first.1 : Tensor = aten::select(%x, %zero, %zero)
  %5 : Tensor = aten::select(%x, %zero, %one)
   = prim::Print(%5)
  %w : Tensor = aten::relu_(%first.1)
  %f : Future[Tensor] = prim::fork_0(%5)
  %r : Tensor = aten::wait(%f)
  return (%r)
with prim::fork_0 = graph(%a : Tensor):
  %b : Tensor = aten::t(%a)
  return (%b)
END
cat > q.txt <<'END'
# a comment, then a blank line

may_alias %first.1 %5
must_alias %first.1 %w
may_alias %r %5
may_contain_alias %f %x
has_writers %5
writes_to_alias_of %w %x
writes_to_alias_of @5 %x
writes_to_alias_of @4 %x
can_move_after @4 @5
can_move_before %w %w
safe_to_change_aliasing %x %5
may_alias %x %nobody
has_writers @99
frobnicate %x
END
"$opt" g.ir --alias-queries=q.txt > answers.txt || fail "exit code $?"
cat > expected.txt <<'END'
false
true
true
true
false
true
true
false
true
false
false
END
diff expected.txt <(head -11 answers.txt) || fail "other answers"
(($(grep -c '^error: ' answers.txt) == 3 && $(wc -l < answers.txt) == 14)) || fail "errors: $(cat answers.txt)"
"$opt" g.ir --pass=alias-db --json > db.json
for field in '"locations"' '"values"' '"nodes"' '"reads"' '"writes"'; do grep -q "$field" db.json || fail "no $field"; done
"$opt" g.ir --pass=alias-db --html=db.html
for text in '<svg' 'relu_' 'first.1'; do grep -qF -- "$text" db.html || fail "no $text in the page"; done
# An option that no pass heeds, an output that is the input, a device.
code=0; "$opt" g.ir --pass=verify-alias-db --html=x.html 2> said.txt || code=$?
[[ $code == 2 ]] && grep -q 'html has no effect here: it is for --pass=alias-db' said.txt || fail "exit $code: $(cat said.txt)"
code=0; "$opt" g.ir --timing=xml 2> said.txt || code=$?
[[ $code == 2 ]] && grep -q 'timing=json expected' said.txt || fail "exit $code: $(cat said.txt)"
code=0; "$opt" g.ir --pas=fuse 2> said.txt || code=$?
[[ $code == 2 ]] && tail -n 1 said.txt | grep -q 'did you mean --pass?' || fail "exit $code: $(cat said.txt)"
code=0; "$opt" g.ir --pass=fus 2> said.txt || code=$?
[[ $code == 2 ]] && tail -n 1 said.txt | grep -q 'did you mean "fuse"?' || fail "exit $code: $(cat said.txt)"
code=0; "$opt" model.pt2 2> said.txt || code=$?
[[ $code == 3 ]] && grep -q 'smelt inspect model.pt2 prints its graph as text' said.txt || fail "exit $code: $(cat said.txt)"
# Work of over a second is shown, here the wait for a reader; --quiet shows nothing.
mkfifo pipe
"$opt" g.ir -o pipe 2> said.txt &
for _ in $(seq 600); do grep -q 'smelt-opt: writing pipe (' said.txt && break || sleep 0.1; done
"$opt" g.ir | diff - pipe || fail "another text through the pipe"
wait $!
grep -qE '^smelt-opt: writing pipe \([0-9.]+ s\)$' said.txt || fail "no progress: $(cat said.txt)"
code=0; "$opt" g.ir -o g.ir 2> said.txt || code=$?
[[ $code == 2 ]] && grep -q 'which would be lost' said.txt || fail "exit $code: $(cat said.txt)"
"$opt" g.ir -o /dev/null && [[ -c /dev/null ]] || fail "/dev/null"
"$opt" - -o - < g.ir > copy.ir && "$opt" g.ir | diff - copy.ir || fail "another text through standard input and output"
code=0; "$opt" g.ir > /dev/full 2> said.txt || code=$?
[[ $code == 6 ]] || fail "exit $code: $(cat said.txt)"
cat > chain.ir <<'END'
graph(%x : Float(4, strides=[1])):
  %1 : int = prim::Constant[value=1]()
  %a : Float(4, strides=[1]) = aten::relu(%x)
  %b : Float(4, strides=[1]) = aten::add_(%a, %x, %1)
  %c : Float(4, strides=[1]) = aten::mul(%b, %x)
  return (%c)
END
"$opt" chain.ir --pass=remove-mutations > pure.ir
! grep -q 'add_' pure.ir || fail "a mutation of fresh memory is left"
"$opt" chain.ir --pass=remove-mutations,group-pointwise > group.ir
(($(grep -c 'smelt::FusionGroup' group.ir) >= 1)) || fail "nothing was grouped"
# A text without types, and one whose operators only passes make.
cat > untyped.ir <<'END'
graph(%x : Float(4, strides=[1]), %i : Long(2, strides=[1])):
  %1 : int = prim::Constant[value=1]()
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::index_fill(%b, %0, %i, %1)
  return (%c)
END
"$opt" untyped.ir --pass=fuse --explain > fused.txt || fail "exit code $?"
grep -q 'aten::relu %a -> aten::tanh %b: fused' fused.txt || fail "not fused: $(cat fused.txt)"
"$opt" untyped.ir --pass=functionalize,expand-composites,fuse > fused.ir || fail "exit code $?"
grep -q 'smelt::inplace_' fused.ir || fail "no indexed write: $(cat fused.ir)"
# Only the inputs lack a part of their types here: their strides.
cat > inputs.ir <<'END'
graph(%x : Float(4, 8), %y : Float(4, 8)):
  %list : Tensor[] = prim::ListConstruct(%x, %y)
  %1 : int = prim::Constant[value=1]()
   = aten::_foreach_add_.Scalar(%list, %1)
  return (%x)
END
"$opt" inputs.ir --pass=functionalize > pure.ir || fail "exit code $?"
grep -q 'aten::add.Scalar(%y' pure.ir || fail "not functional: $(cat pure.ir)"
# Nobody vouches for a graph: it is checked before a pass or a question, and again when its types are complete.
cat > lie.ir <<'END'
graph(%x : Float(4, strides=[1])):
  %y : Float(5, strides=[1]) = aten::relu(%x)
  return (%y)
END
cat > number.ir <<'END'
graph(%x : Float(4, strides=[1])):
  %n : int = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%n)
  return (%y)
END
for pass in fuse alias-db verify-alias-db; do
  code=0; "$opt" lie.ir --pass=$pass > /dev/null 2> said.txt || code=$?
  [[ $code == 3 ]] && grep -q 'lie.ir: %y = aten::relu: the size of dim 0' said.txt || fail "exit $code: $(cat said.txt)"
  code=0; "$opt" number.ir --pass=$pass > /dev/null 2> said.txt || code=$?
  [[ $code == 3 ]] && grep -q 'argument "self" is of type int' said.txt || fail "exit $code: $(cat said.txt)"
done
echo ok
