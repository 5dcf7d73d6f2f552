#!/usr/bin/env bash
# The command line from outside: exit codes as in docs/exit_codes.md, the fields of docs/json.md.
set -u
smelt=$PWD/$1
models=$PWD/testdata
cd "${TEST_TMPDIR:?}" || exit 1
failed=0

# expect CODE PATTERN COMMAND...: the exit code, and a pattern that the output (both streams) has.
expect() {
  local code=$1 pattern=$2 got=0 output
  shift 2
  output=$("$@" 2>&1 | tr -d "\0"; exit "${PIPESTATUS[0]}") || got=$?
  if [[ $got != "$code" ]]; then
    echo "exit $got, expected $code: $*: $output"
    failed=1
  elif ! grep -qE -- "$pattern" <<<"$output"; then
    echo "no \"$pattern\" in the output of $*: $output"
    failed=1
  fi
}
# has_fields JSON FIELD...
has_fields() {
  local json=$1 field
  shift
  for field; do
    [[ $json == *"\"$field\":"* ]] || { echo "no field $field in $json"; failed=1; }
  done
}
compile() { "$smelt" compile "$@" --cache-mode=off --target=x86-64-v2; }

expect 0 'exit codes:' "$smelt" --help
expect 0 'exit codes:' "$smelt" -h
expect 0 'exit codes:' "$smelt" help
expect 0 'usage: smelt compile MODEL' "$smelt" help compile
expect 0 'usage: smelt compile MODEL' "$smelt" compile -h
expect 0 'kernels by sha256' "$smelt" -V
expect 0 'bundle format [0-9]*, kernels by sha256:[0-9a-f]* LLVM' "$smelt" --version
expect 2 'unknown command' "$smelt" frobnicate
expect 2 'unknown command "comple"; did you mean compile\?' "$smelt" comple
expect 2 'unknown option --jsn; did you mean --json\?' "$smelt" inspect a.smb --jsn
expect 2 'unknown command "--hlep"; did you mean --help\?' "$smelt" --hlep
expect 3 'no_such: cannot open' "$smelt" @no_such
# The message is the last of a few lines.
said=$("$smelt" compile --targte=native 2>&1) && failed=1
[[ $(wc -l <<<"$said") -le 4 && ${said##*$'\n'} == *'did you mean --target?' ]] || { echo "$said"; failed=1; }
# Shells complete commands, options and values from the same table.
complete_smelt() {
  local COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _smelt && echo "${COMPREPLY[*]}"
}
compopt() { :; }
source <("$smelt" completion bash)
[[ $(complete_smelt smelt co) == 'compile convert completion' ]] || { complete_smelt smelt co; failed=1; }
[[ $(complete_smelt smelt compile --ver) == --verify ]] || { complete_smelt smelt compile --ver; failed=1; }
[[ $(complete_smelt smelt compile --cache-mode = re) == 'read-write read-only' ]] || { complete_smelt smelt compile --cache-mode = re; failed=1; }
[[ $(complete_smelt smelt cache v) == verify ]] || { complete_smelt smelt cache v; failed=1; }
[[ $(complete_smelt smelt-opt --list) == --list-passes ]] || { complete_smelt smelt-opt --list; failed=1; }
expect 2 'bash, zsh or fish expected' "$smelt" completion tcsh
expect 2 'one model and -o' "$smelt" compile "$models/relu_input.pt2"
expect 2 'unknown option --bogus' compile "$models/relu_input.pt2" -o a.smb --bogus
expect 2 '--explain-cache takes no value' compile "$models/relu_input.pt2" -o a.smb --explain-cache=1
expect 2 'nosuch: one of merge-duplicates' compile "$models/relu_input.pt2" -o a.smb --dump-after=nosuch
expect 2 'nosuch: there is no such pass; expected one of' compile "$models/relu_input.pt2" -o a.smb --disable-pass=nosuch
expect 2 'functionalize: programs need it' compile "$models/relu_input.pt2" -o a.smb --disable-pass=functionalize
cp "$models/relu_input.pt2" read.pt2
expect 2 'which would be lost' compile read.pt2 -o ./read.pt2
expect 2 'which would be lost' compile read.pt2 -o a.smb --stats-file=read.pt2
expect 2 'which would be lost' compile read.pt2 -o a.smb --stats-file=a.smb
cmp "$models/relu_input.pt2" read.pt2 || failed=1
expect 2 'x86-64-v9' "$smelt" compile "$models/relu_input.pt2" -o a.smb --target=x86-64-v9
expect 3 'No such file' compile no_such.pt2 -o a.smb
# One kind of file where another is expected: the message says what to do with it.
expect 3 'read.pt2: is not a bundle .*; smelt compile read.pt2 -o read.smb makes a bundle of it' "$smelt" run read.pt2 --input x=1
expect 3 'smelt compile read.pt2 -o read.smb makes a bundle' "$smelt" bench read.pt2
expect 3 'smelt compile read.pt2 -o read.smb makes a bundle' "$smelt" report read.pt2 -o read.html
expect 3 'smelt compile .*/relu_input.pt2 -o relu_input.smb makes' "$smelt" cc "$models/relu_input.pt2" --namespace=a --include=a.h --header=a.h --source=a.cc
expect 2 'smelt compile read.pt2 -o read.smb makes a bundle' "$smelt" inspect read.pt2 --html=read.html
expect 2 'read.txt: a bundle \(.smb\) or a model \(.pt2, .ir or .smg\) expected' "$smelt" inspect read.txt
expect 3 'a .smb is a bundle, which smelt run takes' compile read.smb -o a.smb
expect 3 'smelt convert compiles all models of a folder' compile . -o a.smb
expect 3 'did you mean read.pt2\?' compile read -o a.smb
head -c 2000 "$models/relu_input.pt2" >cut.pt2
expect 3 'not a readable zip' compile cut.pt2 -o a.smb
expect 3 'not a readable zip' "$smelt" inspect cut.pt2
expect 6 'no_such_folder' compile "$models/relu_input.pt2" -o no_such_folder/a.smb

# Outputs: devices, pipes and links keep their place; what cannot be a file's name is said.
expect 0 '' compile "$models/relu_input.pt2" -o plain.smb --stats-file=plain.json
expect 0 '' compile "$models/relu_input.pt2" -o /dev/null
expect 0 '' compile "$models/relu_input.pt2" -o a.smb --stats-file=/dev/null
expect 2 '--namespace=1a: a C\+\+ namespace such as' "$smelt" cc plain.smb --namespace=1a --include=a.h --header=a.h --source=a.cc
expect 2 '"cmpile": plan, pick or compile expected; did you mean compile\?' "$smelt" kernels cmpile a -o b
expect 2 'smelt kernels: plan: one model and -o expected' "$smelt" kernels plan a
expect 3 'read.pt2:1: a line that smelt kernels plan or pick wrote expected' "$smelt" kernels compile read.pt2 -o a.kernels
expect 2 'reads the bundle again' compile "$models/relu_input.pt2" -o /dev/null --stats-file=a.json
[[ -c /dev/null ]] || { echo "/dev/null is no device any more"; exit 1; }
expect 6 '/dev/full: cannot write' compile "$models/relu_input.pt2" -o /dev/full
ln -s real.smb link.smb
expect 0 '' compile "$models/relu_input.pt2" -o link.smb
[[ -L link.smb ]] && cmp plain.smb real.smb || { echo "the link does not lead to the bundle"; failed=1; }
expect 2 'also "link.smb", which would be lost' "$smelt" report link.smb -o real.smb
mkfifo out.fifo
cat out.fifo >through.smb &
expect 0 '' compile "$models/relu_input.pt2" -o out.fifo
wait $!
[[ -p out.fifo ]] && cmp plain.smb through.smb || { echo "the bundle did not go through the pipe"; failed=1; }
compile "$models/relu_input.pt2" -o /dev/stdout | cmp - plain.smb || { echo "the bundle did not go to standard output"; failed=1; }
expect 2 '-o -: the name of a file to write expected, such as /dev/stdout' compile "$models/relu_input.pt2" -o -
expect 2 '-o a.pt2: .* a name that ends in .smb is expected' compile "$models/relu_input.pt2" -o a.pt2
expect 2 '-o is empty' compile "$models/relu_input.pt2" -o ''
expect 6 'File name too long' compile "$models/relu_input.pt2" -o "$(printf 'x%.0s' {1..300}).smb"
mkdir folder.smb
expect 6 'Is a directory' compile "$models/relu_input.pt2" -o folder.smb

# Inputs that are no files are refused at once.
for name in pipe.pt2 pipe.ir pipe.smg pipe.smb pipe.case.safetensors; do mkfifo $name; done
for name in pipe.pt2 pipe.ir pipe.smg pipe.smb; do expect 3 'is a named pipe' timeout 60 "$smelt" inspect $name; done
expect 3 'is a named pipe' timeout 60 "$smelt" compile pipe.pt2 -o a.smb
expect 3 'is a named pipe' timeout 60 "$smelt" run plain.smb --case=pipe.case.safetensors
expect 3 'Is a directory' "$smelt" inspect folder.smb

# Work of over a second is shown. These commands wait for somebody to read the pipe that they write to.
shows_progress() { # PATTERN COMMAND... with the pipe's name as @
  local pattern=$1 pipe i
  shift
  pipe=$(mktemp -u waits.XXXXXX)
  mkfifo "$pipe"
  : >"$pipe.said"
  "${@//@/$pipe}" >/dev/null 2>"$pipe.said" &
  for ((i = 0; i < 600; ++i)); do
    grep -qE "$pattern \([0-9.]+ s\)$" "$pipe.said" && break
    sleep 0.1
  done
  ((i < 600)) || echo "no progress \"$pattern\" of $*: $(cat "$pipe.said")"
  cat "$pipe" >/dev/null
  wait $!
  ((i < 600))
}
waiting=()
shows_progress 'smelt compile: passes over relu_input.pt2.*' compile "$models/relu_input.pt2" -o @ & waiting+=($!)
shows_progress 'smelt run: writing' "$smelt" run plain.smb --random-inputs --outputs=@ & waiting+=($!)
shows_progress 'smelt inspect: writing waits.*' "$smelt" inspect plain.smb --html=@ & waiting+=($!)
shows_progress 'smelt report: writing waits.*' "$smelt" report plain.smb -o @ & waiting+=($!)
shows_progress 'smelt kernels: planning' "$smelt" kernels plan "$models/relu_input.pt2" -o @ & waiting+=($!)
shows_progress 'smelt cc: writing' "$smelt" cc plain.smb --namespace=a --include=a.h --header=@ --source=a.cc & waiting+=($!)
for pid in "${waiting[@]}"; do wait "$pid" || failed=1; done

# Output that cannot be written is not lost silently.
full() { "$@" >/dev/full; }
for args in --help --version "inspect $models/relu_input.pt2" "inspect plain.smb --json" "cache stats --cache-dir=none" \
  "run plain.smb --case=$models/relu_input.case.safetensors" "compile --help"; do
  expect 6 'cannot write to standard output' full "$smelt" $args
done
closed() { "$@" >&-; }
expect 6 'cannot write to standard output' closed "$smelt" --help
expect 0 '' closed "$smelt" compile "$models/relu_input.pt2" -o closed.smb --cache-mode=off --target=x86-64-v2
cmp plain.smb closed.smb || failed=1

# An option that would have no effect is wrong usage.
expect 2 '--json has no effect with --outputs' "$smelt" run plain.smb --inputs=a --outputs=b --json
expect 2 '--repeat has no effect without --case' "$smelt" run plain.smb --inputs=a --outputs=b --repeat=100
expect 2 '--calls has no effect with --case' "$smelt" run plain.smb --case=a --calls=2
expect 2 '--size has no effect without --random-inputs' "$smelt" run plain.smb --inputs=a --size s0=2
expect 2 '--cache-dir has no effect with --cache-mode=off' compile "$models/relu_input.pt2" -o a.smb --cache-dir=x
expect 2 '--cache-size has no effect' "$smelt" compile "$models/relu_input.pt2" -o a.smb --cache-mode=read-only --cache-size=1
expect 2 '--cache-dir has no effect with --kernels' "$smelt" compile "$models/relu_input.pt2" -o a.smb --kernels=k --cache-dir=x
expect 2 '--digests has no effect on a model' "$smelt" inspect "$models/relu_input.pt2" --digests
expect 2 '--target has no effect on kernels compile' "$smelt" kernels compile a.specs -o a.kernels --target=x86-64-v2
expect 2 '--threads has no effect on kernels pick' "$smelt" kernels pick a.specs -o b.specs --threads=1

# All that is missing is named, with counts and places.
cat >unsupported.ir <<'EOF'
graph(%x : Float(4, 8)):
  %a : Tensor = mine::spline(%x) # net.py:3:0
  %b : Tensor = yours::warp(%a) # net.py:4:0
  %c : Tensor = mine::spline(%b) # net.py:5:0
  return (%c)
EOF
expect 4 'mine::spline \(2 times: net.py:3, net.py:5\); yours::warp \(1 time: net.py:4\)' compile unsupported.ir -o a.smb
echo 'graph(%x : Tensor, %y : Float(2)): %z : Tensor = aten::relu(%x) return (%z)' >incomplete.ir
expect 4 '%x : Tensor' compile incomplete.ir -o a.smb

# A trace holds tensors as constants: views may look at them, nothing may write them.
cat >constants.ir <<'EOF'
graph(%x : Float(2, 3)):
  %1 : Float(3, strides=[1]) = prim::Constant[value= 1  2  3 [ CPUFloatType{3} ]]() # net.py:3:0
  %2 : Float(3, strides=[1]) = aten::detach(%1) # net.py:3:0
  %one : int = prim::Constant[value=1]()
  %3 : Float(2, 3, strides=[3, 1]) = aten::add(%x, %2, %one) # net.py:4:0
  %4 : ComplexDouble() = prim::Constant[value={(1,2)}]() # net.py:5:0
  %5 : ComplexFloat(2, 3, strides=[3, 1]) = aten::mul(%3, %4) # net.py:5:0
  return (%5, %2)
EOF
expect 0 '' compile constants.ir --verify -o a.smb

# PyTorch's answer depends on how it computes: refused by name, with the place.
cat >own_row.ir <<'EOF'
graph(%x : Float(4, 8)):
  %zero : int = prim::Constant[value=0]()
  %dims : int[] = prim::Constant[value=[0]]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %row : Float(8, strides=[1]) = aten::select.int(%x, %zero, %zero)
  %y : Float(8, strides=[1]) = aten::sum.IntList_out(%x, %dims, %no, %none, %row) # net.py:7:0
  return (%y)
EOF
expect 4 'aten::sum.IntList_out \(net.py:7\): an operand lies in the written memory' compile own_row.ir -o a.smb

cat >weights.ir <<'EOT'
graph(%w : Float(4, 4) = weight 0, %x : Float(3, 4)):
  storage 0 bytes 64
  weight 0 "layer.weight" parameter storage 0 Float(4, 4, strides=[4, 1])
  %y : Tensor = aten::mm(%x, %w)
  return (%y)
EOT
expect 4 'weights without data.*"layer.weight"' compile weights.ir -o a.smb

# Results of a text are called as the text calls them.
echo 'graph(%x : Float(4)): %y : Tensor = aten::relu(%x) %2 : Tensor = aten::exp(%x) return (%y, %2)' >names.ir
expect 0 '' compile names.ir -o names.smb
expect 0 '^  y +float32 +\[4\]' "$smelt" inspect names.smb
expect 0 '^  output1 +float32 +\[4\]' "$smelt" inspect names.smb

stats=$(compile "$models/relu_input.pt2" -o a.smb --stats=json) || failed=1
has_fields "$stats" model bundle nodes mutations_removed fusion_groups distinct_kernels kernels_compiled kernels_from_cache bundle_bytes phase_ms
[[ $stats == *'"nodes":1,"mutations_removed":1,"fusion_groups":1,"distinct_kernels":1'* ]] || { echo "$stats"; failed=1; }

case=$models/relu_input.case.safetensors
expect 0 '^ok' "$smelt" run a.smb "--case=$case" --repeat=3 --threads=1
report=$("$smelt" run a.smb "--case=$case" --json) || failed=1
has_fields "$report" ok failures max_abs_err max_rel_err latency_ms min median kernel_launches library_calls bytes_copied_back alias_variant arena_bytes
# Another model's case: the call is refused where it should not be.
other=$("$smelt" run a.smb "--case=$models/lstm_100.case.safetensors" --json) && { echo "exit 0 for another model's case"; failed=1; }
[[ $other == *'"ok":false'*'"failures":[{"call":0,'* ]] || { echo "$other"; failed=1; }
expect 1 'refused' "$smelt" run a.smb "--case=$models/lstm_100.case.safetensors"
expect 3 'No such file' "$smelt" run a.smb --case=no_such
expect 2 'nothing gives the argument "x" \(float32 \[4, 8\]\): --inputs=FILE' "$smelt" run a.smb
expect 3 'cannot map' "$smelt" run <(cat a.smb) "--case=$case"
head -c 3000 a.smb >cut.smb
expect 3 'cut off' "$smelt" inspect cut.smb
printf '\377' | dd of=a.smb bs=1 seek=4200 conv=notrunc 2>/dev/null
expect 3 '' "$smelt" inspect a.smb

compile "$models/kv_cache.pt2" -o kv.smb >/dev/null || failed=1
inspected=$("$smelt" inspect kv.smb --json --digests) || failed=1
has_fields "$inspected" signature convention plans kernels key spec target bytes uses weights arena_bytes segments sha256

# A page with each step, its bytes and the kernels; nothing is loaded from elsewhere.
expect 0 '' "$smelt" inspect kv.smb --html=kv.html
expect 0 'Plan for distinct arguments' cat kv.html
expect 0 'reads [0-9.]+ k?B, writes [0-9.]+ k?B' cat kv.html
grep -qE 'src=|href=|https?:' kv.html && { echo "the page loads something"; failed=1; }
# With a case, how long each step takes.
expect 0 '' "$smelt" inspect kv.smb --html=kv.html --case="$models/kv_cache.case.safetensors"
expect 0 '[0-9.]+ µs' cat kv.html
has_fields "$("$smelt" inspect kv.smb --json --case="$models/kv_cache.case.safetensors")" microseconds
expect 1 'does not hold' "$smelt" inspect kv.smb --html=kv.html --case="$case"
expect 2 'draws bundles' "$smelt" inspect "$models/kv_cache.pt2" --html=kv.html

# Several targets in one bundle; this machine takes its own.
expect 0 '' "$smelt" compile "$models/relu_input.pt2" -o many.smb --cache-mode=off --target=aarch64,x86-64-v2,sm_90
expect 0 '^ok' "$smelt" run many.smb "--case=$case"
expect 0 '"name":"aarch64","triple":"aarch64-unknown-linux-gnu"' "$smelt" inspect many.smb --json
expect 0 '"name":"sm_90","triple":"nvptx64-nvidia-cuda"' "$smelt" inspect many.smb --json
# Each entry says by which name its image has it.
key=$("$smelt" inspect many.smb --json | grep -oE '"key":"[0-9a-f]{64}","spec":"[^"]*","target":"sm_90"' | cut -d '"' -f 4)
[[ -n $key ]] && grep -q "k_$key" many.smb || { echo "the sm_90 image has no entry k_$key"; failed=1; }
expect 0 '' "$smelt" compile "$models/relu_input.pt2" -o arm.smb --cache-mode=off --target=aarch64
expect 5 'aarch64 is for aarch64-unknown-linux-gnu' "$smelt" run arm.smb "--case=$case"
# Without a toolkit PTX is all there is, and it is said.
expect 0 'sm_80: ptxas is not found; the bundle holds PTX' env CUDA_HOME=/nowhere "$smelt" compile "$models/relu_input.pt2" -o ptx.smb --cache-mode=off --target=sm_80
expect 4 'libdevice.10.bc, which is not found' env CUDA_HOME=/nowhere "$smelt" compile "$models/lstm_100.pt2" -o ptx.smb --cache-mode=off --target=sm_80

# The kernel cache.
cached() { "$smelt" compile "$models/relu_input.pt2" -o a.smb --cache-dir=cache --alias-variants=none "$@"; }
expect 2 'stats, explain, verify or clear' "$smelt" cache
expect 2 '"stat": .*; did you mean stats\?' "$smelt" cache stat
expect 2 '"extra" is not expected' "$smelt" cache stats extra
expect 0 '"entries":0' "$smelt" cache stats --json --cache-dir=cache
[[ -e cache ]] && { echo "stats made the cache's folder"; failed=1; }
expect 0 'for x86-64-v2 .*: miss; the cache has no entry' cached --target=x86-64-v2 --explain-cache
expect 0 'target: x86-64-v3, cached x86-64-v2' cached --target=x86-64-v3 --explain-cache
[[ -z $(cached --target=x86-64-v3 --explain-cache --quiet 2>&1) ]] || { echo "a hit is explained as a miss"; failed=1; }
stats=$("$smelt" cache stats --cache-dir=cache --json) || failed=1
has_fields "$stats" directory entries bytes damaged current_generator generator targets
[[ $stats == *'"entries":2'*'"damaged":0,"current_generator":2'*'"targets":{"x86-64-v2":1,"x86-64-v3":1}'* ]] || { echo "$stats"; failed=1; }
expect 0 'x86-64-v2 .*load.p0' "$smelt" cache explain --cache-dir=cache
entry=$(ls cache | head -n 1)
expect 0 'target: x86-64-v[23] here, x86-64-v[23] there' "$smelt" cache explain "${entry:0:16}" --cache-dir=cache
expect 2 'no entry' "$smelt" cache explain zz --cache-dir=cache
expect 0 '2 entries, 0 damaged' "$smelt" cache verify --cache-dir=cache
printf 'x' | dd of="cache/$entry" bs=1 seek=200 conv=notrunc 2>/dev/null
expect 3 "\"damaged\":\[\"${entry%.kernel}\"\]" "$smelt" cache verify --cache-dir=cache --json
expect 0 'compiling the kernel anew' cached --target=x86-64-v2,x86-64-v3
expect 0 '2 entries, 0 damaged' "$smelt" cache verify --cache-dir=cache
expect 0 '2 entries removed' "$smelt" cache clear --cache-dir=cache
# A folder that may hold nothing holds nothing.
expect 0 '' cached --target=x86-64-v2 --cache-size=0
expect 0 '"entries":0' "$smelt" cache stats --json --cache-dir=cache
expect 2 'cache-size' cached --target=x86-64-v2 --cache-size=-1
expect 0 '"entries":0' "$smelt" cache stats --json --cache-dir=cache

# A disk that is full (a file may have 4 KB): the bundle cannot be written, nothing is left of it.
expect 6 'a_full.smb' bash -c 'ulimit -f 4; "$0" compile "$1" -o a_full.smb --cache-mode=off --target=x86-64-v2' "$smelt" "$models/lstm_100.pt2"
[[ -e a_full.smb ]] && { echo "a bundle that could not be written is left"; failed=1; }

# Plain tensors: x is written by the model.
printf '\x4c\0\0\0\0\0\0\0{"x":{"dtype":"F32","shape":[4,8],"data_offsets":[0,128]}}                  ' >in.safetensors
head -c 128 /dev/zero | tr '\0' '\277' >>in.safetensors # -1.5 or so
compile "$models/relu_input.pt2" -o relu.smb >/dev/null || failed=1
expect 0 'wrote out.safetensors' "$smelt" run relu.smb --inputs=in.safetensors --outputs=out.safetensors
expect 0 'relu_.*x.after' head -c 200 out.safetensors
expect 6 'no_such_folder' "$smelt" run relu.smb --inputs=in.safetensors --outputs=no_such_folder/out
expect 2 'no tensor' "$smelt" run kv.smb --inputs=in.safetensors --outputs=out.safetensors
expect 0 '' "$smelt" run relu.smb --inputs=in.safetensors --outputs=/dev/null
[[ -c /dev/null ]] || { echo "/dev/null is no device any more"; exit 1; }

# Results are called as the model's caller says it, where it does.
compile "$models/bags_and_losses.pt2" -o bags.smb >/dev/null || failed=1
expect 0 '"name":"0.cross","node":"[a-z0-9_]+","kind":"tensor","dtype":"float32","sizes":\[' "$smelt" inspect bags.smb --json
expect 0 '"results":\[\{"kind":"tuple","children":5\},\{"kind":"dict","children":2\},\{"kind":"leaf","key":"cross"\}' "$smelt" inspect bags.smb --json

# Results that are no tensors are written, too.
cat >numbers.ir <<'EOF'
graph(%x : Float(4, 8)):
  %one : int = prim::Constant[value=1]()
  %n : int = aten::size(%x, %one)
  %y : Float(4, 8) = aten::relu(%x)
  return (%y, %n, %y)
EOF
compile numbers.ir -o numbers.smb >/dev/null || failed=1
expect 0 'smelt.values' "$smelt" run numbers.smb --inputs=in.safetensors --outputs=numbers.safetensors
expect 0 '"__metadata__":\{"smelt.values":"\{\\"n\\":\{\\"int\\":8\}\}"\}.*"output2":.*"y":' head -c 400 numbers.safetensors

cat >none.ir <<'EOF'
graph(%x : Float(4)):
  %none : NoneType = prim::Constant()
  %y : Float(4) = aten::relu(%x)
  return (%y, %none)
EOF
compile none.ir -o none.smb >/dev/null || failed=1
expect 0 'results that a .npy cannot hold are not written: \{"none":\{"none":true\}\}' "$smelt" run none.smb --input x=1 --outputs=none/
expect 0 'in the metadata "smelt.values": \{"none":\{"none":true\}\}' "$smelt" run none.smb --input x=1 --outputs=none.safetensors
echo 'graph(%x : Float(4), %n : int(3) = const[3]): %y : Float(4) = aten::relu(%x) return (%y)' >constant.ir
compile constant.ir -o constant.smb >/dev/null || failed=1
expect 0 '^y: float32' "$smelt" run constant.smb --input x=1 --input n=3
expect 2 '--input n=4: the export made "n" the constant 3; leave it out' "$smelt" run constant.smb --input x=1 --input n=4
expect 2 '--input x=100000x100000xf32=1: \[100000, 100000\] does not fit; "x" is float32 \[4\]' "$smelt" run none.smb --input x=100000x100000xf32=1

# Without --outputs the results are printed; a value is given in text, as a .npy, as an element of a file.
expect 0 '^y: float32 \[4\]$' "$smelt" run names.smb --input x=1,-2,3,-4
expect 0 '^\[1, 0, 3, 0\]$' "$smelt" run names.smb --input x=4xf32=1,-2,3,-4
expect 0 '"name":"y","kind":"tensor","dtype":"float32","sizes":\[4\],"values":\[1.0,0.0,3.0,0.0\]' "$smelt" run names.smb --input x=1,-2,3,-4 --json
expect 0 'smelt run: wrote y/ in [0-9.]+ s' "$smelt" run names.smb --input x=1,-2,3,-4 --outputs=y/
[[ $(echo y/*) == 'y/output1.npy y/y.npy' ]] || { echo "written: $(echo y/*)"; failed=1; }
expect 0 '^\[1, 0, 3, 0\]$' "$smelt" run names.smb --inputs=y/y.npy
expect 0 '^\[1, 0, 3, 0\]$' "$smelt" run names.smb --input x=@y/y.npy
expect 2 'one tensor expected for a .npy, but there are 2 results' "$smelt" run names.smb --input x=1 --outputs=y.npy
expect 3 'a .npy file of NumPy, not a safetensors file' "$smelt" run names.smb --case=y/y.npy
expect 2 'the model has no argument "z"; it has "x"' "$smelt" run names.smb --input z=1
expect 0 'warning: y: not used, since the model has no such arguments: "output1" and "y"' "$smelt" run names.smb --inputs=y --input x=1
expect 2 'y: no tensor "x" \(float32 \[4\]\); the file has "output1" and "y"' "$smelt" run names.smb --inputs=y
compile "$models/dynamic_batch.pt2" -o dynamic.smb >/dev/null || failed=1
expect 2 'argument "x" has sizes \[2, 3\], expected \[0..512, 20\]' "$smelt" run dynamic.smb --input x=2x3xf32=0
expect 2 'needs its sizes: --size s77=N \(from 0 to 512\)' "$smelt" run dynamic.smb --random-inputs
expect 0 '^softmax: float32 \[3, 6\]$' "$smelt" run dynamic.smb --random-inputs=5 --size s77=3
[[ $("$smelt" run dynamic.smb --random-inputs=5 --size s77=3) == "$("$smelt" run dynamic.smb --random-inputs=5 --size s77=3)" ]] || { echo "one seed, two inputs"; failed=1; }
expect 0 's77 +0..512 +size 0 of x' "$smelt" inspect dynamic.smb
expect 0 'a call may have s77 from 0 on; the export assumes 2' "$smelt" inspect "$models/dynamic_batch.pt2"

# A reader that has seen enough is no news; the exit code says that not all was written.
mkfifo enough
exec 7<>enough 8>enough 7<&-
said=$("$smelt" --version 2>&1 >&8); status=$?
[[ $status == 6 && -z $said ]] || { echo "a pipe without a reader: exit $status: $said"; failed=1; }
exec 8>&-

# A decoder goes from step to step: in one run, or with its state in a file.
step() { # FILE BYTE POSITION: a token of 64 equal bytes times 4, and where it is
  printf '\x80\0\0\0\0\0\0\0%-128s' '{"position":{"dtype":"I64","shape":[1],"data_offsets":[256,264]},"x":{"dtype":"F32","shape":[1,1,64],"data_offsets":[0,256]}}' >"$1"
  head -c 256 /dev/zero | tr '\0' "$2" >>"$1"
  printf "\\x0$3\\0\\0\\0\\0\\0\\0\\0" >>"$1"
}
step step0 '\277' 0
step step1 '\076' 1
expect 0 'wrote steps' "$smelt" run kv.smb --inputs=step0 --inputs=step1 --outputs=steps/
expect 0 'wrote one.npy .*, state ' "$smelt" run kv.smb --inputs=step0 --outputs=one.npy --state-out=state
expect 0 '' "$smelt" run kv.smb --inputs=step1 --outputs=two.npy --state-in=state
expect 0 '' "$smelt" run kv.smb --inputs=step1 --outputs=fresh.npy
cmp steps/call0.linear_1.npy one.npy && cmp steps/call1.linear_1.npy two.npy || failed=1
cmp -s two.npy fresh.npy && { echo "the state makes no difference"; failed=1; }
expect 2 'in.safetensors: it has no state "k_cache"; every state that calls write expected: .*"v_cache".*; the file has "' "$smelt" run kv.smb --inputs=step0 --state-in=in.safetensors
# A file of another kind is called what it is.
expect 2 'case.safetensors: it has no state .*; the file is a recorded case' "$smelt" run kv.smb --inputs=step0 --state-in="$models/kv_cache.case.safetensors"
expect 3 'kv.smb: a bundle \(.smb\), not a safetensors file' "$smelt" run kv.smb --inputs=step0 --state-in=kv.smb
expect 3 'Is a directory' "$smelt" run kv.smb --inputs=step0 --state-in=.
expect 3 'in.safetensors: not a recorded case: .*--inputs' "$smelt" run kv.smb --case=in.safetensors
expect 1 'warning: .* was recorded of digits.pt2, and the bundle.s model is kv_cache' "$smelt" run kv.smb --case="$models/digits.case.safetensors"
expect 2 'a recorded case, not arguments; --case=.* runs it' "$smelt" run kv.smb --inputs="$models/kv_cache.case.safetensors"
expect 0 '^  k_cache +buffer +float32 +\[1, 4, 32, 16\]' "$smelt" inspect kv.smb

# Latencies of calls, on random arguments where no others are given.
measured=$("$smelt" bench dynamic.smb --size s77=1,4 --calls=3 --warmup=0 --json) || failed=1
has_fields "$measured" model target callers threads rows sizes calls latency_ms min mean p50 p90 p99 max calls_per_second
[[ $measured == *'"sizes":{"s77":1},"calls":3'*'"sizes":{"s77":4},"calls":3'* ]] || { echo "$measured"; failed=1; }
expect 0 '^s77=4 +6 ' "$smelt" bench dynamic.smb --size s77=4 --calls=3 --warmup=0 --callers=2 --threads=1
expect 0 '^- +2 ' "$smelt" bench kv.smb --inputs=step0 --calls=2 --warmup=0
expect 2 'needs its sizes' "$smelt" bench dynamic.smb --calls=1
expect 2 '--duration has no effect with --calls' "$smelt" bench kv.smb --calls=1 --duration=1

# A command says what it has written, unless it is to be quiet.
expect 0 'smelt compile: wrote said.smb \([0-9.]+ k?B\) in [0-9.]+ s: [0-9]+ kernels? compiled' compile names.ir -o said.smb
[[ -z $(compile names.ir -o said.smb --quiet 2>&1) ]] || { echo "--quiet is not quiet"; failed=1; }

# There is no memory for the result: 960 MB in a process that may have 800.
cat >large.ir <<'EOF'
graph(%x : Float(4, 8)):
  %0 : int = prim::Constant[value=0]()
  %sizes : int[] = prim::Constant[value=[30000000, 8]]()
  %no : bool = prim::Constant[value=0]()
  %row : Float(8) = aten::select(%x, %0, %0)
  %all : Float(30000000, 8) = aten::expand(%row, %sizes, %no)
  %y : Float(30000000, 8) = aten::exp(%all)
  return (%y)
EOF
compile large.ir -o large.smb >/dev/null || failed=1
expect 6 'out of memory' bash -c 'ulimit -v 800000; exec "$@"' limited "$smelt" run large.smb --inputs=in.safetensors --outputs=out.safetensors

# A case that cannot be cut down is reported.
expect 2 'does not fit .*: call 0 has' "$smelt" reduce "$models/relu_input.pt2" "--case=$models/kv_cache.case.safetensors"
expect 2 'does not fit .*: call 0 argument 0' "$smelt" reduce "$models/relu_input.pt2" "--case=$models/digits.case.safetensors"
expect 4 'mine::spline' "$smelt" reduce unsupported.ir "--case=$case"
cp "$case" reduced.case.safetensors
expect 2 'is read, and would be lost' "$smelt" reduce "$models/relu_input.pt2" --case=reduced.case.safetensors
expect 0 'nothing to cut down' "$smelt" reduce "$models/relu_input.pt2" "--case=$case"
# A model that is not compiled is cut down; the summary says what was written.
expect 1 'smelt reduce: wrote red.ir \([0-9]+ B\), red.case.safetensors \([0-9]+ B\) in [0-9.]+ s: tries: [0-9]+$' "$smelt" reduce own_row.ir "--case=$case" -o red --tries=20
expect 0 'sum.IntList_out' cat red.ir
exit $failed
