#!/usr/bin/env bash
# Installs the Debian and Ubuntu packages Widelane needs. This file holds the one list of them; the demo and
# the tests call it.
#
#   deploy/install-deps.sh [--print] [SET ...]
#
# Sets: build (compile everything), run (what a binary needs at run time), demo (build + the tool that trains its
# models), test (demo + sanitizers, fuzzers, linters, test clients and Prometheus), bench (build + what the benchmarks' folder
# asks for), image (what tests/image.sh builds an image with). Without a set: build. --print lists the packages and installs
# nothing.
# Works as root or through sudo, asks nothing, and does nothing when all packages are there.
set -euo pipefail

build=(
  ca-certificates cmake g++ make ninja-build pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libspdlog-dev libfmt-dev libssl-dev prometheus-cpp-dev libcivetweb-dev libcli11-dev nlohmann-json3-dev
)
demo=(liblinear-tools)
test=(
  libgtest-dev libgmock-dev libbenchmark-dev
  ccache shellcheck curl git python3 python3-grpcio python3-protobuf python3-yaml
  prometheus
)
bench=(libgtest-dev libgmock-dev)
image=(buildah debootstrap curl python3)

os_release=/etc/os-release
version=""
if [ -r "$os_release" ]; then
  # shellcheck source=/dev/null
  version=$(. "$os_release" && printf '%s:%s' "${ID:-}" "${VERSION_ID:-}")
fi
# The run-time libraries carry their ABI in their package names, which differ between releases.
case "$version" in
  debian:12) run=(libgrpc++1.51 libspdlog1.10 libprometheus-cpp-core1.0 libcivetweb1) ;;
  *) run=(libgrpc++1.51t64 libspdlog-dev libprometheus-cpp-core1.0 libcivetweb1) ;;
esac
# The linters are those of one version of clang, as each finds and formats differently; a release without it does without them.
case "$version" in
  debian:12 | ubuntu:24.04) test+=(clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14) ;;
  *) test+=(clang libclang-rt-dev) ;;
esac

print=false
sets=()
for argument in "$@"; do
  case "$argument" in
    --print) print=true ;;
    build | run | demo | test | bench | image) sets+=("$argument") ;;
    *)
      echo "install-deps.sh: '$argument' is not a package set; there are build, run, demo, test, bench and image" >&2
      exit 2
      ;;
  esac
done
[ ${#sets[@]} -gt 0 ] || sets=(build)

packages=()
for set in "${sets[@]}"; do
  case "$set" in
    build) packages+=("${build[@]}") ;;
    run) packages+=("${run[@]}") ;;
    demo) packages+=("${build[@]}" "${demo[@]}") ;;
    test) packages+=("${build[@]}" "${demo[@]}" "${test[@]}") ;;
    bench) packages+=("${build[@]}" "${bench[@]}") ;;
    image) packages+=("${image[@]}") ;;
  esac
done

if $print; then
  printf '%s\n' "${packages[@]}" | sort -u
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps.sh: these packages are missing and there is neither root nor sudo: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
# The tests want the program Prometheus. Without these files it does not become a service of this machine, now or at its next start.
no_service=(
  -o Dpkg::Options::=--path-exclude=/lib/systemd/system/prometheus.service
  -o Dpkg::Options::=--path-exclude=/usr/lib/systemd/system/prometheus.service
  -o Dpkg::Options::=--path-exclude=/etc/init.d/prometheus
)
# Errors go to standard error; what dpkg tells of each package interests nobody.
apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
"${apt_get[@]}" update >/dev/null
"${apt_get[@]}" "${no_service[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
