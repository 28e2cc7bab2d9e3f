#!/usr/bin/env bash
# A server on all GPUs under load: eight clients at once, each cutting the same rows into calls of another size. All must get the
# same bytes, and every GPU must have scored batches. Called by gpu_check.sh; BUNDLE is one made with --demo.
#
#   tests/gpu_load.sh BUNDLE
set -euo pipefail
# Numbers are written and read with a point.
export LC_ALL=C

readonly bundle=${1:?usage: tests/gpu_load.sh BUNDLE} copies=20 ready_timeout_s=60
work=$(mktemp -d "${TMPDIR:-/tmp}/widelane-gpu-load.XXXXXX")
server=""
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

for ((i = 0; i < copies; i++)); do cat "$bundle/demo/data/section.test"; done >"$work/rows"

"$bundle/bin/widelane-server" --model-repository "$bundle/demo/models" --devices gpu \
  --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0 >"$work/log" 2>&1 &
server=$!
for ((i = 0; i < ready_timeout_s * 10; i++)); do
  # After the end of the server nothing is added to its log.
  running=true
  kill -0 "$server" 2>/dev/null || running=false
  if grep -q 'ready:' "$work/log" || ! $running; then break; fi
  sleep 0.1
done
grep -q 'ready:' "$work/log" || {
  cat "$work/log"
  echo "the server ended, or was not ready within $ready_timeout_s s"
  exit 1
}
grpc=$(sed -n 's/.*serving gRPC on //p' "$work/log")
http=$(sed -n 's/.*serving HTTP on //p' "$work/log")

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
exec 3<>"/dev/tcp/${http%:*}/${http##*:}"
printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
cat <&3 >"$work/metrics"
grep -E '^widelane_(batches_total|device_failures_total|rows_total)' "$work/metrics"
while read -r uuid; do
  if ! grep -E "^widelane_batches_total\{device=\"$uuid\",route=\"[a-z_]+\"\} [1-9]" "$work/metrics" >"$work/found"; then
    echo "$uuid scored nothing"
    exit 1
  fi
done < <(grep -oE 'device GPU-[0-9a-f-]+' "$work/log" | cut -d' ' -f2 | sort -u)
kill -TERM "$server"
wait "$server"
server=""
awk -v rows="$(($(wc -l <"$work/rows") * ${#clients[@]}))" -v start="$start" -v end="$end" \
  'BEGIN { printf "load ok: %d rows from 8 clients in %.1f s, %.0f rows/s\n", rows, end - start, rows / (end - start) }'
