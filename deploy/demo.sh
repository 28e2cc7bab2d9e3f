#!/usr/bin/env bash
# From nothing to scored rows on a Debian or Ubuntu machine: installs what is missing, builds, trains two models on this
# machine's own list of packages, serves them, scores packages the training never saw, and compares every probability with
# the tool that trained the models. deploy/README.md tells the steps.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: deploy/demo.sh [OPTION ...]

  --devices WHAT   what to score on, as widelane-server takes it: auto (default), cpu, gpu or a list
  --bin DIR        use the programs in DIR; nothing is installed or built
  --work DIR       work in DIR and leave the files there; otherwise a temporary directory is used and removed
  --keep           leave the temporary directory, too
  --prepare-only   stop when models, rows and liblinear's answers are in --work DIR
  --prepared DIR   use what --prepare-only left in DIR: nothing is installed, built or trained
USAGE
}

# Limits the demo must keep. liblinear reaches 0.956 and 0.83, and prints six digits.
readonly min_accuracy_library=0.94 min_accuracy_section=0.80 max_difference=1e-6
readonly ready_timeout_s=120
readonly fewest_packages=10000  # fewer known ones mean that the machine has not read its package lists yet

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
devices=auto bin="" work="" keep=false prepare_only=false prepared=""
server_pid="" temporary=""

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'demo.sh: %s\n' "$*" >&2
  exit 1
}
# Runs a command; if it fails, says in words which step did.
step() {
  local what=$1
  shift
  "$@" || fail "$what failed (code $?)"
}

parse_arguments() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --devices | --bin | --work | --prepared)
        if [ $# -lt 2 ] || [ -z "$2" ]; then
          echo "demo.sh: $1 needs a value" >&2
          exit 2
        fi
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
      --keep) keep=true ;;
      --prepare-only) prepare_only=true ;;
      -h | --help)
        usage
        exit 0
        ;;
      *)
        echo "demo.sh: unknown option '$1'" >&2
        usage >&2
        exit 2
        ;;
    esac
    shift
  done
  if $prepare_only && { [ -z "$work" ] || [ -n "$prepared" ]; }; then
    echo "demo.sh: --prepare-only needs --work and excludes --prepared" >&2
    exit 2
  fi
}

stop_server() {
  [ -n "$server_pid" ] || return 0
  local code=0
  kill -TERM "$server_pid" 2>/dev/null || true
  wait "$server_pid" || code=$?
  server_pid=""
  return "$code"
}

clean_up() {
  local code=$?
  trap '' INT TERM HUP
  if [ -n "$server_pid" ]; then
    kill -TERM "$server_pid" 2>/dev/null || true
    for _ in {1..100}; do
      kill -0 "$server_pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$server_pid" 2>/dev/null || true
  fi
  if [ -n "$temporary" ]; then
    if $keep; then echo "left in $temporary"; else rm -rf "$temporary"; fi
  fi
  exit "$code"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    return 1
  fi
}

build() {
  say "installing what is missing"
  step "installing packages" "$root/deploy/install-deps.sh" demo
  say "building into build/release"
  local options=() architecture
  # A new build leaves the tests out, and has kernels for the GPU that is here only, since all take a quarter of an hour to
  # compile; one that is there keeps its settings.
  if [ ! -e "$root/build/release/CMakeCache.txt" ]; then
    architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -dc '0-9' || true)
    options=(-DWIDELANE_TESTS=OFF "-DWIDELANE_CUDA_ARCHITECTURES=${architecture:-90}-real")
  fi
  if command -v ccache >/dev/null; then
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  (cd "$root" && cmake --preset release "${options[@]}" >"$work/cmake.log" 2>&1) || {
    cat "$work/cmake.log" >&2
    fail "configuring the build failed"
  }
  grep -F 'CUDA backend' "$work/cmake.log" || true
  step "building" cmake --build "$root/build/release" \
    --target widelane-server widelane widelane_demo_packages widelane_demo_compare
  bin=$root/build/release/bin
}

# Writes the machine's list of packages, after reading it from the distribution if the machine has none.
list_packages() {
  local list=$1
  apt-cache dumpavail >"$list" || fail "apt-cache, which lists this machine's packages, failed"
  if [ "$(grep -c '^Package:' "$list")" -lt "$fewest_packages" ]; then
    as_root apt-get update -qq || fail "the package lists are empty and 'apt-get update' cannot be run (root or sudo is needed)"
    apt-cache dumpavail >"$list"
  fi
}

# train NAME MODEL: trains NAME with liblinear, imports it as MODEL and keeps liblinear's answers for the held-out rows.
train() {
  local name=$1 model=$2 start=$SECONDS
  step "training $model" liblinear-train -s 0 -q "$data/$name.train" "$data/$name.model"
  echo "trained $model in $((SECONDS - start)) s"
  mkdir -p "$models/$model/1"
  step "importing $model" "$bin/widelane" import liblinear "$data/$name.model" "$models/$model/1/model.safetensors"
  step "liblinear-predict" liblinear-predict -b 1 -q "$data/$name.test" "$data/$name.model" "$data/$name.predictions"
}

prepare() {
  mkdir -p "$data" "$models"
  say "making a data set of all packages this machine could install"
  list_packages "$data/dumpavail"
  step "making the data set" "$bin/widelane-demo-packages" "$data" <"$data/dumpavail"
  say "training with liblinear-train -s 0 and importing"
  train library package-is-library
  train section package-section
  # Nothing below needs these, and they are most of the bytes.
  rm -f "$data"/dumpavail "$data"/*.train "$data"/*.model
}

# The first match of a line of the server's log; empty if it is not there yet.
from_log() { sed -n "s/.*$1.*/\\1/p" "$work/server.log" | head -n 1; }

start_server() {
  say "starting the server on --devices $devices"
  "$bin/widelane-server" --model-repository "$models" --devices "$devices" \
    --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0 >"$work/server.log" 2>&1 &
  server_pid=$!
  local deadline=$((SECONDS + ready_timeout_s))
  until grep -q 'ready: [0-9]* models' "$work/server.log"; do
    if ! kill -0 "$server_pid" 2>/dev/null; then
      cat "$work/server.log" >&2
      fail "the server did not start"
    fi
    if [ "$SECONDS" -ge "$deadline" ]; then
      cat "$work/server.log" >&2
      fail "the server was not ready within $ready_timeout_s s"
    fi
    sleep 0.1
  done
  cat "$work/server.log"
  grpc_address=$(from_log 'serving gRPC on \([^ ]*\)')
  http_address=$(from_log 'serving HTTP on \([^ ]*\)')
  if [ -z "$grpc_address" ] || [ -z "$http_address" ]; then fail "the server's log does not name its addresses"; fi
}

# score NAME MODEL MIN_ACCURACY: scores the held-out rows over gRPC; leaves the comparison's last line in $result.
score() {
  local name=$1 model=$2 min_accuracy=$3
  say "$model: scoring the held-out packages over gRPC"
  step "scoring $model" "$bin/widelane" score --address "$grpc_address" --model "$model" --index-base 1 \
    --output labels,probabilities --stage-times --output-file "$work/$name.scores" "$data/$name.test"
  local code=0
  "$bin/widelane-demo-compare" "$data/$name.test" "$data/$name.classes" "$data/held-out" "$work/$name.scores" \
    "$data/$name.predictions" "$min_accuracy" "$max_difference" >"$work/$name.compared" || code=$?
  cat "$work/$name.compared"
  [ "$code" -eq 0 ] || fail "$model does not agree with liblinear (code $code)"
  result=$(tail -n 1 "$work/$name.compared")
}

# Prints what an HTTP server answers, without its headers where curl is missing, too.
get() {
  if command -v curl >/dev/null; then
    curl -fsS --max-time 10 "http://$1$2"
    return
  fi
  local socket
  exec {socket}<>"/dev/tcp/${1%:*}/${1##*:}"
  printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$2" "$1" >&"$socket"
  timeout 10 cat <&"$socket" | sed '1,/^\r*$/d'
  exec {socket}>&-
}

show_metrics() {
  say "some of http://$http_address/metrics"
  get "$http_address" /metrics >"$work/metrics" || fail "/metrics did not answer"
  local shown='^widelane_(rows_total|requests_total|batches_total|ignored_features_total|stage_duration_seconds_sum)'
  # Without those that counted nothing.
  grep -E "$shown" "$work/metrics" | grep -vE ' 0$' || fail "/metrics does not hold the server's own metrics"
}

value_of() { sed -n "s/.*\\b$1=\\([^ ]*\\).*/\\1/p" <<<"$2"; }

parse_arguments "$@"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for option in bin prepared; do
  [ -n "${!option}" ] || continue
  directory=$(realpath -e -- "${!option}" 2>/dev/null) || fail "--$option: there is no folder ${!option}"
  [ -d "$directory" ] || fail "--$option: ${!option} is not a folder"
  printf -v "$option" '%s' "$directory"
done
for part in data models; do
  if [ -n "$prepared" ] && [ ! -d "$prepared/$part" ]; then
    fail "--prepared: there is no $prepared/$part; --prepare-only makes it"
  fi
done
if [ -n "$work" ]; then
  mkdir -p "$work"
  work=$(cd "$work" && pwd)
else
  temporary=$(mktemp -d "${TMPDIR:-/tmp}/widelane-demo.XXXXXX")
  work=$temporary
fi
if [ -z "$bin" ]; then
  if [ -n "$prepared" ]; then bin=$root/build/release/bin; else build; fi
fi
for program in widelane-server widelane widelane-demo-compare; do
  [ -x "$bin/$program" ] || fail "there is no program $bin/$program"
done
data=${prepared:-$work}/data
models=${prepared:-$work}/models
[ -n "$prepared" ] || prepare
if $prepare_only; then
  echo "prepared: $work"
  exit 0
fi

start_server
score library package-is-library "$min_accuracy_library"
library=$result
score section package-section "$min_accuracy_section"
section=$result
show_metrics
say "stopping the server"
stop_server || fail "the server did not stop cleanly (code $?)"

difference=$(printf '%s\n' "$(value_of max_difference "$library")" "$(value_of max_difference "$section")" |
  LC_ALL=C sort -g | tail -n 1)
echo "sections: accuracy=$(value_of accuracy "$section")"
echo "demo ok: rows=$(value_of rows "$library") accuracy=$(value_of accuracy "$library")" \
  "max_difference_from_liblinear=$difference"
