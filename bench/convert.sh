#!/usr/bin/env bash
# Measures `smelt convert`: 200 models of five families, one of 2 GB, on one core and on two, each from an empty cache; then
# the largest amount of memory that a worker took beyond files that it maps. docs/performance.md holds the figures.
#
#   bench/convert.sh [COUNT [BYTES [ROUNDS]]]
#
# Each bundle is written through to the disk: TMPDIR=/dev/shm (4 GB of it) measures the processor and not the disk.
set -euo pipefail
cd "$(dirname "$0")/.."
./bazelw build --noshow_progress //bench:make_models //tools:smelt
bin=$(./bazelw info bazel-bin 2>/dev/null)
work=$(mktemp -d "${TMPDIR:-/tmp}/smelt-convert-XXXXXX")
trap 'rm -rf "$work"' EXIT
"$bin/bench/make_models" "$work/models" "${1:-200}" "${2:-2e9}"
du -sh "$work/models" | cut -f1

# run CORES: seconds of a run from nothing.
run() {
  rm -rf "$work/out" "$work/cache"
  local begin end
  begin=$(date +%s.%N)
  taskset -c "0-$(($1 - 1))" "$bin/tools/smelt" convert "$work/models" --out-dir="$work/out" --cache-dir="$work/cache" \
    --jobs="$1" | tail -1 >&2
  end=$(date +%s.%N)
  awk "BEGIN { print $end - $begin }"
}
best_one=1e9 best_two=1e9
for _ in $(seq "${3:-3}"); do
  one=$(run 1) two=$(run 2)
  best_one=$(awk "BEGIN { print $one < $best_one ? $one : $best_one }")
  best_two=$(awk "BEGIN { print $two < $best_two ? $two : $best_two }")
done
awk "BEGIN { printf \"one core %.2f s, two %.2f s: %.2f times\n\", $best_one, $best_two, $best_one / $best_two }"

# Memory of the largest model, sampled.
rm -rf "$work/out"
"$bin/tools/smelt" convert "$work"/models/mlp/big.pt2 --out-dir="$work/out" --cache-dir="$work/cache" --jobs=1 >/dev/null &
pid=$! most=0
while kill -0 $pid 2>/dev/null; do
  for p in $(pgrep -P $pid || true); do
    now=$(awk '/^RssAnon/ { print $2 }' /proc/"$p"/status 2>/dev/null || echo 0)
    ((${now:-0} > most)) && most=$now
  done
  sleep 0.02
done
wait $pid
echo "big.pt2: at most $((most / 1024)) MB of memory beyond mapped files"
