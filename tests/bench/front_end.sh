#!/usr/bin/env bash
# The front end beside a bare gRPC server: starts both, puts the same load on them in turn, and prints how they compare.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tests/bench/front_end.sh BIN_DIR [--json FILE] [--seconds S] [--rounds N] [--unix] [--only PART,PART]
                                 [--echo ARGUMENTS] [-- SERVER_ARGUMENT...]

  BIN_DIR        holds widelane, widelane-server and echo_server: build/release/bin, or bin/ of a bundle
  --json FILE    also write what was measured, and the ratios, as JSON
  --seconds S    of each measurement (default 3)
  --rounds N     in how many rounds the servers take turns (default 3)
  --unix         Unix sockets instead of the loopback interface, for servers that listen on them
  --only LIST    any of calls rows alone stream context half
  --echo ARGS    arguments for echo_server; several times for several forms, of which the best at each part counts
                 (default: a queue of one thread for every two cores, and one of two threads for every four, as the server)
  --             what follows goes to widelane-server
USAGE
}

fail() {
  echo "front_end.sh: $*" >&2
  exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin="" unix=false
measure=() server=() forms=()
while [ $# -gt 0 ]; do
  case "$1" in
    --json | --seconds | --rounds | --only)
      [ $# -ge 2 ] || fail "$1 needs a value"
      measure+=("$1" "$2")
      shift
      ;;
    --echo)
      [ $# -ge 2 ] || fail "$1 needs a value"
      forms+=("$2")
      shift
      ;;
    --unix) unix=true ;;
    --)
      shift
      server=("$@")
      break
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) fail "unknown option '$1'" ;;
    *)
      [ -z "$bin" ] || fail "there is one BIN_DIR"
      bin=$1
      ;;
  esac
  shift
done
[ -n "$bin" ] || {
  usage >&2
  exit 2
}
for program in widelane widelane-server echo_server; do
  [ -x "$bin/$program" ] || fail "there is no $bin/$program"
done
pairs=$((($(nproc) + 3) / 4))
[ ${#forms[@]} -gt 0 ] || forms=('--threads-per-queue 1' "--completion-queues $pairs --threads-per-queue 2")
readonly bin here unix forms ready_timeout_s=300

work=$(mktemp -d "${TMPDIR:-/tmp}/widelane-front-end.XXXXXX")
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap cleanup EXIT

# address NAME: where a server is to listen.
address() {
  if $unix; then echo "unix:$work/$1.socket"; else echo 127.0.0.1:0; fi
}

# start LOG PATTERN COMMAND...: in the background, until its log has the pattern.
start() {
  local log=$1 pattern=$2
  shift 2
  : >"$log"
  "$@" >"$log" 2>&1 &
  pids+=($!)
  for ((i = 0; i < ready_timeout_s * 10; i++)); do
    if grep -q "$pattern" "$log"; then return; fi
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  cat "$log" >&2
  echo "front_end.sh: $1 ended, or was not ready within $ready_timeout_s s" >&2
  exit 1
}

address_in() { sed -n 's/.*serving gRPC on //p' "$1"; }

for profile in text-54k rank; do "$bin/widelane" bench model --profile "$profile" "$work/$profile.safetensors" >&2; done
echoes=()
for form in "${!forms[@]}"; do
  read -ra arguments <<<"${forms[form]}"
  addresses=()
  for rows in 1 1000 100000; do
    name=echo-$form-$rows
    start "$work/$name" 'serving gRPC on' "$bin/echo_server" --address "$(address "$name")" --rows "$rows" "${arguments[@]}"
    addresses+=("$(address_in "$work/$name")")
  done
  echoes+=(--echo "$(IFS=,; echo "${addresses[*]}")")
done
start "$work/server" 'ready:' "$bin/widelane-server" --grpc-address "$(address server)" --http-address 127.0.0.1:0 \
  --model "text-54k=$work/text-54k.safetensors" --model "rank=$work/rank.safetensors" "${server[@]}"
grep ' device ' "$work/server" >&2 || true

python3 "$here/front_end.py" --widelane "$bin/widelane" --ours "$(address_in "$work/server")" \
  "${echoes[@]}" "${measure[@]}"
