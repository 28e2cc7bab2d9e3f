# A server for gpu_load.sh and gpu_observe.sh, which include this file; it ends with the script. Needs $bundle; makes $work, and the
# addresses $grpc and $http.
# shellcheck shell=bash

readonly ready_timeout_s=60
work=$(mktemp -d "${TMPDIR:-/tmp}/widelane-gpu.XXXXXX")
server=""
clean_up() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

# start_server OPTION ...
start_server() {
  "${bundle:?}/bin/widelane-server" "$@" --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0 >"$work/log" 2>&1 &
  server=$!
  local running
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
  # shellcheck disable=SC2034
  grpc=$(sed -n 's/.*serving gRPC on //p' "$work/log")
  http=$(sed -n 's/.*serving HTTP on //p' "$work/log")
}

# The page of metrics.
metrics() {
  exec 3<>"/dev/tcp/${http%:*}/${http##*:}"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
  cat <&3
  exec 3>&-
}

# UUIDs of the GPUs that it uses.
gpus() { grep -oE 'device GPU-[0-9a-f-]+' "$work/log" | cut -d' ' -f2 | sort -u; }

# Ends it, which must succeed.
stop_server() {
  kill -TERM "$server"
  wait "$server"
  server=""
}
