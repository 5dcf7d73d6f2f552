#!/usr/bin/env bash
# The command line under limits of memory and of processes: each run does its work, or ends with exit code 6 and says what
# was short; nothing is left behind, no signal, no other code.
#   limits_test.sh SMELT
set -u
smelt=$PWD/$1
models=$PWD/testdata
scratch=$(mktemp -d /tmp/smelt_limits_XXXXXX)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failed=0
tried=0
short=0

# limited NAME OUTPUT COMMAND...: runs it; OUTPUT is written whole or not at all.
limited() {
  local name=$1 output=$2 status=0
  shift 2
  rm -f "$output"
  "$@" >out 2>err || status=$?
  ((++tried))
  case $status in
    0) [[ $output == none || -s $output ]] || { echo "$name: nothing was written"; failed=1; } ;;
    6)
      ((++short))
      [[ $(wc -l <err) == 1 ]] || { echo "$name: one line expected: $(cat err)"; failed=1; }
      [[ ! -e $output ]] || { echo "$name: $output is there after a failure"; failed=1; }
      ;;
    *) echo "$name: exit code $status: $(tail -3 err)"; failed=1 ;;
  esac
  [[ -z $(find . -name '*.tmp*' -o -name '.smelt*') ]] || { echo "$name: left behind: $(ls -A)"; failed=1; rm -f -- *.tmp*; }
}

# The least that a process needs to start, in megabytes of addresses; from there on in small steps.
least=100
until prlimit --as=$((least << 20)) "$smelt" --version >/dev/null 2>&1; do
  ((least += 2))
  ((least < 4000)) || { echo "smelt does not start"; exit 1; }
done

for model in digits kv_cache transformer_encoder; do
  "$smelt" compile "$models/$model.pt2" -o "$model.smb" --cache-mode=off --quiet || failed=1
  case=$models/$model.case.safetensors
  for more in 0 2 4 6 8 10 13 16 20 25 30 40 60 100 200; do
    megabytes=$((least + more))
    limited "run $model in $megabytes MB" none prlimit --as=$((megabytes << 20)) "$smelt" run "$model.smb" "--case=$case" --threads=4
    limited "compile $model in $megabytes MB" new.smb prlimit --as=$((megabytes << 20)) "$smelt" compile "$models/$model.pt2" -o new.smb \
      --cache-mode=off --threads=2 --quiet
  done
done

# No thread more than the first: a user who may not have any. Root may always.
user=()
if ((EUID == 0)); then
  user=(setpriv --reuid=65533 --regid=65533 --clear-groups)
  chmod 755 "$scratch"
  install -m 755 "$smelt" "$scratch/smelt_copy"
  mkdir -m 777 "$scratch/open"
  cp "$models"/digits.pt2 "$models"/digits.case.safetensors "$scratch/open/"
  smelt=$scratch/smelt_copy models=$scratch/open
fi
for processes in 1 2 3 8; do
  limited "run with $processes processes" none "${user[@]}" prlimit --nproc=$processes "$smelt" run digits.smb \
    "--case=$models/digits.case.safetensors" --threads=4
  limited "compile with $processes processes" "$models/new.smb" "${user[@]}" prlimit --nproc=$processes "$smelt" compile \
    "$models/digits.pt2" -o "$models/new.smb" --cache-mode=off --threads=2 --quiet
done

echo "$tried runs under limits, $short of them short of something"
((short > 0)) || { echo "no limit was low enough to matter"; failed=1; }
exit $failed
