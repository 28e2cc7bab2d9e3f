#!/usr/bin/env bash
# Checks a bundle (deploy/bundle.sh) on a machine that has GPUs and nothing else: no compiler, no packages. Every step has a time
# limit, a log in --out and one line in the summary; the exit code is 0 if none failed.
set -uo pipefail

usage() {
  cat <<'USAGE'
usage: tests/gpu_check.sh [--bundle DIR] [--out DIR] [--fast]

  --bundle DIR   the bundle (default: bundle beside tests/)
  --out DIR      where logs go (default: a new temporary directory)
  --fast         without compute-sanitizer
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
bundle=$root/bundle out="" fast=false failed=0
# Tests that cut rows, add with atomics or exchange values between threads; racecheck is too slow for all of them.
readonly race_filter='*LongRows*/Gpu:*OneHugeRow*/Gpu:*LinksHaveTheirTextbookValues/Gpu:*LiblinearsThreeClasses/Gpu:*ManyOutputsToo/Gpu'
readonly found=42  # exit code of compute-sanitizer when it finds something

while [ $# -gt 0 ]; do
  case "$1" in
    --bundle | --out)
      if [ $# -lt 2 ]; then
        echo "gpu_check.sh: $1 needs a value" >&2
        exit 2
      fi
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --fast) fast=true ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "gpu_check.sh: unknown option '$1'" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done
[ -n "$out" ] || out=$(mktemp -d "${TMPDIR:-/tmp}/widelane-gpu-check.XXXXXX")
mkdir -p "$out" && out=$(cd "$out" && pwd) && bundle=$(cd "$bundle" && pwd) || exit 2
readonly bin=$bundle/bin

# step NAME SECONDS COMMAND...: runs it, keeps its output, says how it went.
step() {
  local name=$1 limit=$2 log=$out/$1.log start=$SECONDS code=0 verdict=ok
  shift 2
  timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 || code=$?
  if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
    verdict="FAILED: not done within $limit s"
  elif [ "$code" -ne 0 ]; then
    verdict="FAILED: code $code"
  fi
  if [ "$code" -ne 0 ]; then
    failed=$((failed + 1))
    tail -n 40 "$log"
  fi
  printf '%-12s %4d s  %s  %s\n' "$name" $((SECONDS - start)) "$verdict" "$(summary_of "$log")"
}

# The line of a log that tells most.
summary_of() {
  grep -hE '^\[  PASSED  \]|^demo ok|^load ok|ERROR SUMMARY|RACECHECK SUMMARY|^GPU [0-9]' "$1" | tail -n 2 | tr '\n' ' '
}

sanitizer=$(command -v compute-sanitizer || true)
for candidate in /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
  if [ -z "$sanitizer" ] && [ -x "$candidate" ]; then sanitizer=$candidate; fi
done

# Without a GPU the tests would skip, which is no check of one.
export WIDELANE_REQUIRE_GPU=1

if command -v nvidia-smi >/dev/null; then step gpus 60 nvidia-smi -L; fi
step numeric 180 "$bin/engine_test"
if $fast; then
  echo "memcheck, racecheck: left out (--fast)"
elif [ -z "$sanitizer" ]; then
  echo "memcheck, racecheck: left out, there is no compute-sanitizer"
else
  step memcheck 300 "$sanitizer" --tool memcheck --error-exitcode "$found" "$bin/engine_test" --gtest_filter='*Gpu*'
  step racecheck 180 "$sanitizer" --tool racecheck --error-exitcode "$found" "$bin/engine_test" --gtest_filter="$race_filter"
fi
if [ -d "$bundle/demo" ]; then
  step demo 180 "$root/deploy/demo.sh" --prepared "$bundle/demo" --bin "$bin" --devices gpu
  step load 180 "$root/tests/gpu_load.sh" "$bundle"
else
  echo "demo, load: left out, the bundle has no demo/"
fi

echo "logs: $out"
if [ "$failed" -gt 0 ]; then
  echo "$failed steps failed"
  exit 1
fi
echo "all steps passed"
