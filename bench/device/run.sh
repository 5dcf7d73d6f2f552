#!/usr/bin/env bash
# Checks and measures smelt on an NVIDIA GPU, in two halves.
#
#   bench/device/run.sh prepare FOLDER [TARGET]    compiles everything into FOLDER, here, for TARGET (sm_90)
#   FOLDER/run.sh [OUT]                            on the machine with the GPU: OUT.json and OUT.md (report), in 7 minutes
#
# Only FOLDER travels: the runner, bundles with their cases, and rows.py. The second half needs NVIDIA's driver. Where
# python3 has PyTorch, it is measured beside; where compute-sanitizer is installed, the models run under memcheck.
#
# For `prepare`: SMELT_TORCH_PYTHON is a Python with PyTorch, without which there are no rows to measure;
# SMELT_DEVICE_FUZZ is the number of random programs (1000), and SMELT_DEVICE_ANSWERS that of operators' recorded calls
# (2000 of 7,789), each of which is compiled; SMELT_DEVICE_MODELS names the folders of models (testdata
# and testdata/scenarios). SMELT_BIN is bazel-bin, if it is built already.
# For the second half: SMELT_DEVICE (cuda:0) and SMELT_DEVICE_SECONDS (400).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# compile NAME MODEL CASE FOLDER: what does not compile is counted.
compile() {
  if "$bin/tools/smelt" compile "$2" -o "$4/$1.smb" --target="$target" --quiet 2>"$4/$1.error"; then
    cp "$3" "$4/$1.case.safetensors"
    rm "$4/$1.error"
  else
    echo "$1: $(tail -n 1 "$4/$1.error")" >>"$4/not_compiled.txt"
    rm -f "$4/$1.error" "$4/$1.smb"
  fi
}

prepare() {
  out=$1 target=${2:-sm_90}
  local root folder model name seed
  root=$(cd "$here/../.." && pwd)
  bin=${SMELT_BIN:-}
  if [[ -z $bin ]]; then
    (cd "$root" && ./bazelw build --noshow_progress //tools:smelt //tools/fuzz:smelt-fuzz //tools:save_op_calls \
      //bench/device:device_run) || return
    bin=$(cd "$root" && ./bazelw info bazel-bin 2>/dev/null)
  fi
  mkdir -p "$out" || return
  out=$(cd "$out" && pwd)
  install -m 755 "$bin/bench/device/device_run" "$here/run.sh" "$out/" && cp "$here/rows.py" "$out/" || return
  echo "$target" >"$out/target.txt"
  export -f compile
  export bin target
  for folder in ${SMELT_DEVICE_MODELS-$root/testdata $root/testdata/scenarios}; do
    mkdir -p "$out/cases/$(basename "$folder")"
    find -L "$folder" -maxdepth 1 -name '*.pt2' -print0 | sort -z |
      OUT=$out/cases/$(basename "$folder") xargs -0 -r -P "$(nproc)" -I{} bash -c \
        'name=$(basename "{}" .pt2); case=${0%.pt2}; [[ ! -e ${case}.case.safetensors ]] || compile "$name" "{}" "$case.case.safetensors" "$OUT"' {}
  done
  if ((${SMELT_DEVICE_FUZZ:=1000} > 0)); then
    mkdir -p "$out/cases/fuzz" "$out/fuzz"
    seq "$SMELT_DEVICE_FUZZ" | OUT=$out xargs -P "$(nproc)" -I{} bash -c '
      "$bin/tools/fuzz/smelt-fuzz" --seed={} --print >"$OUT/fuzz/{}" &&
        "$bin/tools/fuzz/smelt-fuzz" --replay="$OUT/fuzz/{}" --save="$OUT/fuzz/p{}" >/dev/null || exit 0
      for model in "$OUT"/fuzz/p{}.{ir,smg}; do
        [[ ! -e $model ]] || compile "p{}" "$model" "$OUT/fuzz/p{}.case.safetensors" "$OUT/cases/fuzz"
      done'
    rm -r "$out/fuzz"
  fi
  if ((${SMELT_DEVICE_ANSWERS:=2000} > 0)); then
    mkdir -p "$out/cases/answers" "$out/calls"
    "$bin/tools/save_op_calls" "$root/testdata/op_answers.safetensors" "$out/calls" "$SMELT_DEVICE_ANSWERS" || return
    # A few functions differ from PyTorch in the last places on the CPU, too. They are left out.
    find "$out/calls" -name '*.ir' -print0 | sort -z | OUT=$out/cases/answers xargs -0 -r -P "$(nproc)" -I{} bash -c '
      name=$(basename "$0" .ir) case=${0%.ir}.case.safetensors
      if "$bin/tools/smelt" compile "$0" -o "$0.smb" --quiet 2>/dev/null &&
        ! "$bin/tools/smelt" run "$0.smb" --case="$case" >/dev/null 2>&1; then
        echo "$name: differs on the CPU" >>"$OUT/not_compiled.txt"
      else
        compile "$name" "$0" "$case" "$OUT"
      fi' {}
    rm -r "$out/calls"
  fi
  mkdir -p "$out/rows"
  if [[ -n ${SMELT_TORCH_PYTHON:-} ]]; then
    "$SMELT_TORCH_PYTHON" "$here/rows.py" export "$out/rows" || return
    for model in "$out"/rows/*.pt2; do
      name=$(basename "$model" .pt2)
      "$bin/tools/smelt" compile "$model" -o "$out/rows/$name.smb" --target="$target" --quiet || echo "$name is not compiled"
      rm "$model"
    done
  else
    echo "SMELT_TORCH_PYTHON names no Python with PyTorch: there are no rows to measure"
    echo '[]' >"$out/rows/rows.json"
  fi
  wc -l "$out"/cases/*/not_compiled.txt 2>/dev/null
  du -sh "$out"
}

# part NAME SECONDS COMMAND...: its output becomes a part of the report.
part() {
  local status=0
  echo "--- $1"
  timeout --signal=INT --kill-after=5 "$2" "${@:3}" >"$work/$1.json" 2>"$work/$1.log" || status=$?
  tail -n 3 "$work/$1.log" >&2
  parts+=("$work/$1.json")
  ((status == 0)) || failed=1
  return "$status"
}

measure() {
  local out=${1:-$here/report} device=${SMELT_DEVICE:-cuda:0} seconds=${SMELT_DEVICE_SECONDS:-400} status=0 folder
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  parts=() failed=0
  # Without a GPU this ends here, with the reason and exit code 5.
  "$here/device_run" cycles "$device" 0 none >"$work/none" || return 5
  {
    echo '{"kind": "machine",'
    echo "\"gpu\": \"$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)\","
    echo "\"driver\": \"$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)\","
    echo "\"library\": \"${SMELT_CUDA_DRIVER:-libcuda.so.1}\", \"cublaslt\": \"${SMELT_CUBLASLT:-if installed}\","
    echo "\"target\": \"$(cat "$here/target.txt")\", \"date\": \"$(date -u +%Y-%m-%d)\"}"
  } >"$work/machine.json"
  parts+=("$work/machine.json")
  # Shares of the time: 44 % for four folders of cases, 20 % for the rows, 5 % for cycles, 14 % for memcheck, 17 % for
  # PyTorch.
  for folder in "$here"/cases/*/; do
    part "check_$(basename "$folder")" $((seconds * 11 / 100 + 5)) \
      "$here/device_run" check "$device" $((seconds * 10 / 100)) "${folder%/}" || true
  done
  part measure $((seconds * 22 / 100 + 5)) "$here/device_run" measure "$device" $((seconds * 20 / 100)) "$here/rows" || true
  local model=$here/cases/testdata/kv_cache.smb
  [[ ! -e $model ]] || part cycles $((seconds * 5 / 100 + 5)) "$here/device_run" cycles "$device" 1000 "$model" || true
  if command -v compute-sanitizer >/dev/null; then
    part memcheck $((seconds * 14 / 100 + 5)) compute-sanitizer --tool memcheck --error-exitcode 9 --log-file "$work/memcheck.txt" \
      "$here/device_run" check "$device" $((seconds * 12 / 100)) "$here/cases/testdata" || tail -n 20 "$work/memcheck.txt"
  else
    echo "compute-sanitizer is not installed: nothing ran under memcheck"
  fi
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    part torch $((seconds * 17 / 100 + 5)) python3 "$here/rows.py" measure $((seconds * 15 / 100)) || true
  else
    echo "python3 has no PyTorch for CUDA: smelt is measured alone"
  fi
  "$here/device_run" report "$out.json" "$out.md" "${parts[@]}" || return
  echo "$out.md"
  return "$failed"
}

case ${1:-} in
  prepare)
    [[ $# -ge 2 ]] || { sed -n '2,5p' "$0"; exit 2; }
    prepare "${@:2}"
    ;;
  -h | --help)
    sed -n '2,14p' "$0"
    ;;
  *)
    [[ -x $here/device_run ]] || { echo "run.sh: there is no device_run beside it: run.sh prepare FOLDER first" >&2; exit 2; }
    measure "$@"
    ;;
esac
