#!/usr/bin/env bash
# A server on all GPUs under load: eight clients at once, each cutting the same rows into calls of another size. All must get the
# same bytes, and every GPU must have scored batches. Called by gpu_check.sh; BUNDLE is one made with --demo.
#
#   tests/gpu_load.sh BUNDLE
set -euo pipefail
# Numbers are written and read with a point.
export LC_ALL=C

readonly bundle=${1:?usage: tests/gpu_load.sh BUNDLE} copies=20
# shellcheck source=tests/gpu_server.sh
. "$(dirname "${BASH_SOURCE[0]}")/gpu_server.sh"

for ((i = 0; i < copies; i++)); do cat "$bundle/demo/data/section.test"; done >"$work/rows"
start_server --model-repository "$bundle/demo/models" --devices gpu

clients=()
start=$EPOCHREALTIME
for rows in 37 100 500 1000 2000 5000 20000 100000; do
  "$bundle/bin/widelane" score --quiet --address "$grpc" --model package-section --output labels,top:3 \
    --rows-per-call "$rows" --output-file "$work/$rows.out" "$work/rows" &
  clients+=($!)
done
for client in "${clients[@]}"; do wait "$client"; done
end=$EPOCHREALTIME

for other in "$work"/*.out; do cmp "$work/37.out" "$other"; done
metrics >"$work/metrics"
grep -E '^widelane_(batches_total|device_failures_total|rows_total)' "$work/metrics"
while read -r uuid; do
  if ! grep -E "^widelane_batches_total\{device=\"$uuid\",route=\"[a-z_]+\"\} [1-9]" "$work/metrics" >"$work/found"; then
    echo "$uuid scored nothing"
    exit 1
  fi
done < <(gpus)
stop_server
awk -v rows="$(($(wc -l <"$work/rows") * ${#clients[@]}))" -v start="$start" -v end="$end" \
  'BEGIN { printf "load ok: %d rows from 8 clients in %.1f s, %.0f rows/s\n", rows, end - start, rows / (end - start) }'
