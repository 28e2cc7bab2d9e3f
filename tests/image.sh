#!/usr/bin/env bash
# Builds docker/Dockerfile's image on bases made here, and tries it: who it runs as, a read-only root, its health check, a score,
# the metrics, the stop. Needs root and a Debian or Ubuntu machine, but no Docker; takes some minutes.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tests/image.sh [OPTION ...]

  --target NAME   runtime (default) or full
  --cuda DIR      a CUDA toolkit to build with, seen in the build as /usr/local/cuda (default: none, CPU only)
  --arch LIST     CUDA architectures, such as 90-real (default: all common ones)
  --work DIR      where the bases and images are kept for the next time (default: build/image)
USAGE
}

readonly max_runtime_mb=150 max_stop_ms=10000 patience_s=60
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
target=runtime cuda="" arch="" work=$root/build/image
container="" mounted="" server="" grpc="" http="" passed=0

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'image.sh: %s\n' "$*" >&2
  [ -z "$server" ] || cat "$work/server.log" >&2
  exit 1
}
check() {
  local what=$1
  shift
  "$@" || fail "$what"
  passed=$((passed + 1))
  echo "ok: $what"
}

parse_arguments() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --target | --cuda | --arch | --work)
        [ $# -ge 2 ] || fail "$1 needs a value"
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
      -h | --help)
        usage
        exit 0
        ;;
      *) fail "unknown option '$1'; --help tells which there are" ;;
    esac
    shift
  done
}

clean_up() {
  local code=$?
  trap '' INT TERM HUP
  # Process 1 of its namespace: all in it ends with it.
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  [ -z "$container" ] || in_store rm "$container" >/dev/null || true
  exit "$code"
}

# buildah with a store of our own.
in_store() { buildah --root "$work/store" --runroot "$work/run" "$@"; }

# A tree of this machine's release, made as slim as the slim images that people take.
make_base() {
  local tree=$work/tree release
  if [ -n "$(in_store images -q localhost/base 2>/dev/null)" ]; then return; fi
  # shellcheck source=/dev/null
  release=$(. /etc/os-release && echo "$VERSION_CODENAME $([ "$ID" = debian ] && echo main || echo main,universe)")
  say "making a base of ${release% *}"
  rm -rf "$tree"
  debootstrap --variant=minbase --components="${release#* }" "${release% *}" "$tree" >"$work/debootstrap.log" ||
    fail "debootstrap failed: $work/debootstrap.log"
  printf 'path-exclude=/usr/share/%s/*\n' doc man locale info >"$tree/etc/dpkg/dpkg.cfg.d/slim"
  rm -rf "$tree"/usr/share/{doc,man,locale,info}/* "$tree"/var/{cache/apt,lib/apt/lists,log}/*
  container=$(in_store from scratch)
  in_store add -q "$container" "$tree" / >/dev/null
  in_store commit -q --rm "$container" localhost/base >/dev/null
  container=""
  rm -rf "$tree"
}

build_image() {
  local options=()
  [ -z "$cuda" ] || options=(--volume "$(readlink -f "$cuda"):/usr/local/cuda:ro")
  say "building $target; its output is in $work/build.log"
  # Health checks are of Docker's format.
  in_store build --isolation chroot --format docker --layers -f "$root/docker/Dockerfile" \
    --target "$target" -t "localhost/widelane:$target" \
    --build-arg BUILD_IMAGE=localhost/base --build-arg RUN_IMAGE=localhost/base --build-arg "CUDA_ARCHITECTURES=$arch" \
    --build-arg VERSION=0.0.0-test --build-arg REVISION=none "${options[@]}" "$root" >"$work/build.log" 2>&1 ||
    { tail -n 40 "$work/build.log" >&2 && fail "the build failed"; }
}

# What the image says of itself, as JSON of Docker's format: config FIELD
config() { in_store inspect --type image "localhost/widelane:$target" | python3 -c 'import json, sys
print(json.dumps(json.load(sys.stdin)["Docker"]["config"].get(sys.argv[1])))' "$1"; }

check_config() {
  check "runs as a numeric user" [ "$(config User)" = '"65532:65532"' ]
  check "has an entry point without a shell" [ "$(config Entrypoint)" = '["widelane-server"]' ]
  check "has a health check" [ "$(config Healthcheck | grep -c '"CMD", "widelane", "healthcheck"')" = 1 ]
  check "asks for GPUs" [ "$(config Env | grep -c 'NVIDIA_VISIBLE_DEVICES=all.*NVIDIA_DRIVER_CAPABILITIES=compute,utility')" = 1 ]
  check "has labels" [ "$(config Labels | grep -c '"org.opencontainers.image.version": "0.0.0-test"')" = 1 ]
}

check_size() {
  local bytes
  bytes=$(du -s -x -B 1 --apparent-size "$mounted" | cut -f 1)
  echo "size of $target: $((bytes / 1000000)) MB"
  [ "$target" != runtime ] || check "is smaller than $max_runtime_mb MB" [ "$bytes" -lt $((max_runtime_mb * 1000000)) ]
}

# inside COMMAND ...: as the image's user, with no capability and the image's environment, on a read-only root with /models. A
# process 1, as in a container; the network is this machine's.
inside() {
  # Expanded by the inner shell, with the outer one's arguments.
  # shellcheck disable=SC2016
  exec unshare --mount --pid --fork --kill-child bash -ec '
    tree=$1 models=$2
    shift 2
    mount --bind "$tree" "$tree"
    mount --bind "$models" "$tree/models"
    mount -o remount,bind,ro "$tree/models"
    mount -t proc proc "$tree/proc"
    mount --bind /dev "$tree/dev"
    mount -o remount,bind,ro "$tree"
    exec env -i "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" WIDELANE_MODEL_REPOSITORY=/models \
      setpriv --inh-caps -all --no-new-privs chroot --userspec 65532:65532 --groups "" "$tree" "$@"
  ' inside "$mounted" "$work/models" "$@"
}

# Three features, whose weights make 0.5 + 2 * 0.5 - 0.25 of the row that is asked for: sigmoid(1.25) = 0.77729986.
make_model() {
  rm -rf "$work/models"
  mkdir -p "$work/models/toy/1"
  printf '%s\n' 'solver_type L2R_LR' 'nr_class 2' 'label 1 0' 'nr_feature 3' 'bias 1' w 0.5 -1.25 2 -0.25 >"$mounted/tmp/toy.model"
  chroot "$mounted" /usr/local/bin/widelane import liblinear /tmp/toy.model /tmp/model.safetensors
  mv "$mounted/tmp/model.safetensors" "$work/models/toy/1/"
  chmod -R a+rX "$work/models"
}

# Waits for a line of the server's log and prints what follows `part` on it.
logged() {
  local part=$1 end=$((SECONDS + patience_s))
  while [ "$SECONDS" -lt "$end" ] && kill -0 "$server" 2>/dev/null; do
    if grep -m 1 -o "$part.*" "$work/server.log" | sed "s/^$part//" | grep .; then return; fi
    sleep 0.1
  done
  fail "no '$part' in the server's log in time"
}

start_server() {
  (inside widelane-server --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0) >"$work/server.log" 2>&1 &
  server=$!
  grpc=$(logged 'serving gRPC on ')
  http=$(logged 'serving HTTP on ')
  logged 'ready: ' >/dev/null
}

is_healthy() { (inside widelane healthcheck --address "$grpc"); }
counts_the_row() { curl -fs "http://$http/metrics" | grep -q '^widelane_rows_total{model="toy",version="1"} 1$'; }
cannot_write() { ! touch "/proc/$1/root/tmp/file" 2>/dev/null; }

check_answers() {
  local answer
  check "its health check succeeds" is_healthy
  answer=$(echo '1 1:1 3:0.5' | (inside widelane score --quiet --address "$grpc" --model toy --output probabilities -))
  echo "scores: $answer"
  check "scores" grep -q '0\.7772998' <<<"$answer"
  check "is scraped" counts_the_row
}

check_rights() {
  local pid
  pid=$(pgrep -P "$server" -f widelane-server)
  check "is process 1 of its namespace" [ "$(awk '/^NSpid/ {print $NF}' "/proc/$pid/status")" = 1 ]
  check "is nobody" [ "$(awk '/^Uid/ {print $2}' "/proc/$pid/status")" = 65532 ]
  check "has no capability" [ "$(awk '/^Cap(Eff|Prm|Inh|Amb)/ {print $2}' "/proc/$pid/status" | sort -u)" = 0000000000000000 ]
  check "has a root that cannot be written" cannot_write "$pid"
}

check_stop() {
  local pid code=0 start
  pid=$(pgrep -P "$server" -f widelane-server)
  start=$(date +%s%3N)
  kill -TERM "$pid"
  wait "$server" || code=$?
  server=""
  stop_ms=$(($(date +%s%3N) - start))
  check "ends with 0 at SIGTERM ($code)" [ "$code" = 0 ]
  check "ends in time ($stop_ms ms)" [ "$stop_ms" -le "$max_stop_ms" ]
}

parse_arguments "$@"
[ "$(id -u)" -eq 0 ] || fail "needs root: it makes file systems and namespaces"
"$root/deploy/install-deps.sh" image
mkdir -p "$work"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
make_base
build_image
check_config
container=$(in_store from "localhost/widelane:$target")
mounted=$(in_store mount "$container")
check_size
make_model
start_server
check_rights
check_answers
check_stop
echo "$passed passed, 0 failed"
