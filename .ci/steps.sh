# For the scripts of this folder that run many steps: counts the steps and the test cases that passed, failed and were skipped.
#
#   cd "$(dirname "$0")/.." && . .ci/steps.sh
#   step "tests" bazel_test //...
#   finish
#
# The folder $scratch is removed at the end.

passed=0
failed=0
skipped=0
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
# The names of the steps that failed, each with the end of what it printed: `finish` repeats them where a reader looks first.
failures=$scratch/failures
# The Bazel of bazel_test. Two can run at a time if each has an output base of its own.
bazel=(./bazelw)

# step NAME COMMAND...: runs it and counts it. The command runs in this shell, so that it can count as well.
step() {
  local name=$1 start=$SECONDS status=0 log shown
  shift
  log=$(mktemp -p "$scratch")
  echo "--- $name"
  exec 3>&1 4>&2 > >(tee "$log" >&3) 2>&1
  shown=$!
  # A server that the command starts must not keep this script's own output open.
  "$@" 3>&- 4>&- || status=$?
  exec >&3 2>&4 3>&- 4>&-
  for _ in {1..50}; do kill -0 "$shown" 2>/dev/null && sleep 0.1 || break; done
  if ((status == 0)); then
    echo "--- $name: passed in $((SECONDS - start)) s"
    ((++passed))
  else
    echo "--- $name: FAILED ($status) after $((SECONDS - start)) s"
    ((++failed))
    # In one write, since steps can fail side by side.
    cat <<<"=== $name: exit status $status. The end of its output:"$'\n'"$(tail -n 60 "$log")" >>"$failures"
  fi
  rm "$log"
  return "$status"
}

# with_skips COMMAND...: runs a program that says "SKIPPED N ..." of what it could not check, and counts that as skipped.
with_skips() {
  local n
  "$@" | tee "$scratch/with_skips.log"
  local status=${PIPESTATUS[0]}
  while read -r n; do ((skipped += n)); done < <(sed -nE 's/^SKIPPED ([0-9]+) .*/\1/p' "$scratch/with_skips.log")
  return "$status"
}

# beside COMMAND...: runs it, and its steps, while the steps after it run. `join` waits, shows what it printed, and adds its counts.
besides=()
beside() {
  local folder=$scratch/beside${#besides[@]}
  mkdir "$folder"
  (
    trap - EXIT
    passed=0 failed=0 skipped=0 scratch=$folder
    "$@"
    echo "$passed $failed $skipped" >"$folder/counts"
  ) >"$folder/log" 2>&1 &
  besides+=($!)
}
join() {
  local i good bad not_run
  for i in "${!besides[@]}"; do
    wait "${besides[i]}"
    cat "$scratch/beside$i/log"
    # A command that ended before its counts were written failed.
    read -r good bad not_run 2>/dev/null <"$scratch/beside$i/counts" || { good=0 bad=1 not_run=0; }
    ((passed += good, failed += bad, skipped += not_run))
  done
  besides=()
}

# Counts the test cases in the results of the test targets that Bazel's summary in file $1 names.
count_cases() {
  local target verdict xml tests bad skips logs
  logs=$("${bazel[@]}" info "${@:2}" bazel-testlogs 2>/dev/null)
  while read -r target verdict; do
    xml=$logs/${target#//}
    xml=${xml/:/\/}/test.xml
    # The first count in the file is of all its cases, whether GoogleTest or Bazel wrote it.
    tests=$(grep -m1 -oE '\btests="[0-9]+"' "$xml" 2>/dev/null | head -n 1 | tr -dc 0-9)
    tests=${tests:-1}
    bad=$(grep -oE '<(failure|error)\b' "$xml" 2>/dev/null | wc -l)
    # A case that this machine cannot run, such as one of an instruction set that it lacks, did not pass.
    skips=$(grep -oE 'result="skipped"' "$xml" 2>/dev/null | wc -l)
    ((skipped += skips, tests -= skips))
    if [[ $verdict == PASSED ]]; then
      ((passed += tests))
    else
      # A test that crashed or timed out has written no results of its cases.
      ((bad = bad > 0 ? bad : 1, failed += bad, passed += tests > bad ? tests - bad : 0))
    fi
  done < <(sed -nE 's#^(//[^ ]+) +(\(cached\) )?(PASSED|FLAKY|FAILED|TIMEOUT|NO STATUS|INCOMPLETE).*#\1 \3#p' "$1")
}

# bazel_test FLAGS...: runs tests, shows what failed, counts the cases.
bazel_test() {
  local status=0
  "${bazel[@]}" test --keep_going --noshow_progress --test_output=errors "$@" >"$scratch/test.log" 2>&1 || status=$?
  if ((status != 0)); then cat "$scratch/test.log"; else grep -E '^(Executed|//)' "$scratch/test.log"; fi
  local configs=() flag
  for flag; do [[ $flag != --config=* ]] || configs+=("$flag"); done
  count_cases "$scratch/test.log" ${configs[@]+"${configs[@]}"}
  return "$status"
}

# Repeats what failed and prints the counts on the last line; returns whether nothing failed.
finish() {
  [[ ! -e $failures ]] || cat "$failures"
  echo "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0))
}
