#!/usr/bin/env bash
# Checks a bundle (deploy/bundle.sh) on a machine that has GPUs and nothing else: no compiler, no packages (the steps
# `observe`, `front_end`, `cost` and `compare` want Python, the last with numpy; it compares with PyTorch and scipy where
# they are). Every step has a time limit, a log and one line in the summary; the exit code is 0 if none failed.
set -uo pipefail

usage() {
  cat <<'USAGE'
usage: tests/gpu_check.sh [--bundle DIR] [--out DIR] [--only STEP,STEP] [--seconds N] [--fast]

  --bundle DIR   the bundle (default: bundle beside tests/)
  --out DIR      where results go (default: a new temporary directory): summary.txt, front_end.json,
                 compare.json, crossover.svg, logs.tar.gz (with observed.json, trace.json and lanes.svg)
  --only LIST    these steps only: gpus numeric demo load observe events front_end cost kernels cpu compare
                 memcheck racecheck
  --seconds N    what all steps together may take (default 480); later ones get what is left
  --fast         without compute-sanitizer
USAGE
}

readonly steps=(gpus numeric demo load observe events front_end cost kernels cpu compare memcheck racecheck)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
bundle=$root/bundle out="" only="" seconds=480 fast=false failed=0
# Tests that cut rows, add with atomics or exchange values between threads; racecheck is too slow for all of them.
readonly race_filter='*LongRows*/Gpu:*OneHugeRow*/Gpu:*LinksHaveTheirTextbookValues/Gpu:*LiblinearsThreeClasses/Gpu:*ManyOutputsToo/Gpu'
readonly found=42  # exit code of compute-sanitizer when it finds something

while [ $# -gt 0 ]; do
  case "$1" in
    --bundle | --out | --only | --seconds)
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
for name in ${only//,/ }; do
  if [[ " ${steps[*]} " != *" $name "* ]]; then
    echo "gpu_check.sh: there is no step '$name'; there are ${steps[*]}" >&2
    exit 2
  fi
done
if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "gpu_check.sh: --seconds: '$seconds' is no number" >&2
  exit 2
fi
[ -n "$out" ] || out=$(mktemp -d "${TMPDIR:-/tmp}/widelane-gpu-check.XXXXXX")
mkdir -p "$out/logs" && out=$(cd "$out" && pwd) && bundle=$(cd "$bundle" && pwd) || exit 2
readonly bin=$bundle/bin summary=$out/summary.txt
: >"$summary"

say() { printf '%s\n' "$*" | tee -a "$summary"; }

# Whether a step is to run.
wanted() { [[ -z $only || ",$only," == *",$1,"* ]]; }

# The lesser of a step's own limit and what is left for all.
limit_of() {
  local left=$((seconds - SECONDS))
  echo $((left < $1 ? left : $1))
}

# step NAME SECONDS COMMAND...: runs it, keeps its output, says how it went.
step() {
  local name=$1 log=$out/logs/$1.log start=$SECONDS code=0 verdict=ok limit
  limit=$(limit_of "$2")
  shift 2
  wanted "$name" || return 0
  if [ "$limit" -lt 10 ]; then
    failed=$((failed + 1))
    say "$(printf '%-12s %4d s  FAILED: no time is left (--seconds %d)' "$name" 0 "$seconds")"
    return 0
  fi
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
  say "$(printf '%-12s %4d s  %s  %s' "$name" $((SECONDS - start)) "$verdict" "$(summary_of "$log")")"
}

# left_out REASON STEP...: says so of those that were wanted.
left_out() {
  local reason=$1 name
  shift
  for name in "$@"; do
    if wanted "$name"; then say "$(printf '%-12s         left out, %s' "$name" "$reason")"; fi
  done
}

# The line of a log that tells most.
summary_of() {
  grep -hE '^\[  PASSED  \]|^demo ok|^load ok|^trace ok|^observe ok|ERROR SUMMARY|RACECHECK SUMMARY|^GPU [0-9]' "$1" | tail -n 2 | tr '\n' ' '
}

# Measures the front end beside a bare gRPC server, and shows both.
front_end() {
  step front_end 300 "$root/tests/bench/front_end.sh" "$bin" --json "$out/front_end.json" --rounds 2
  if wanted front_end; then grep -E '^\|' "$out/logs/front_end.log" | tee -a "$summary"; fi
}

# What those who watch a server see, and a picture of its lanes.
observe() {
  step observe 120 "$root/tests/gpu_observe.sh" "$bundle" "$out/logs"
  if wanted observe; then
    grep -E '^\||^GPU-|^FAILED|^stopped' "$out/logs/observe.log" | tee -a "$summary"
    if [ -e "$out/logs/trace.json" ]; then
      python3 "$root/tests/bench/draw_trace.py" "$out/logs/trace.json" "$out/logs/lanes.svg" || true
    fi
  fi
}

# What device times cost.
events() {
  step events 60 "$bin/event_cost"
  if wanted events; then tee -a "$summary" <"$out/logs/events.log"; fi
}

# What the metrics cost.
cost() {
  step cost 120 "$root/tests/bench/metrics_cost.py" "$bin" --json "$out/logs/metrics_cost.json" --variants 'off again,on' --rounds 6
  if wanted cost; then grep -E '^\|' "$out/logs/cost.log" | tee -a "$summary"; fi
}

# Measures beside the peers, draws the crossover, shows both.
compare() {
  local limit
  limit=$(limit_of 420)
  step compare "$limit" python3 "$root/tests/bench/compare.py" --bin "$bin" --out "$out/compare.json" --seconds $((limit - 45))
  if wanted compare && [ -e "$out/compare.json" ]; then
    python3 "$root/tests/bench/plot.py" "$out/compare.json" "$out/crossover.svg" || true
    grep -E '^\||^FAILED' "$out/logs/compare.log" | tee -a "$summary"
  fi
}

sanitizer=$(command -v compute-sanitizer || true)
for candidate in /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
  if [ -z "$sanitizer" ] && [ -x "$candidate" ]; then sanitizer=$candidate; fi
done

# Without a GPU the tests would skip, which is no check of one.
export WIDELANE_REQUIRE_GPU=1

if command -v nvidia-smi >/dev/null; then step gpus 60 nvidia-smi -L; fi
# What the CPU computes with other numbers of threads needs no GPU.
step numeric 180 "$bin/engine_test" --gtest_filter='-*Contract.*Threads*:*RowKernelsTest*'
if [ -d "$bundle/demo" ]; then
  step demo 180 "$root/deploy/demo.sh" --prepared "$bundle/demo" --bin "$bin" --devices gpu
  step load 180 "$root/tests/gpu_load.sh" "$bundle"
else
  left_out "the bundle has no demo/" demo load
fi
if command -v python3 >/dev/null; then observe; else left_out "there is no Python" observe; fi
if [ -x "$bin/event_cost" ]; then events; else left_out "the bundle has no event_cost" events; fi
if [ -x "$bin/echo_server" ]; then front_end; else left_out "the bundle has no echo_server" front_end; fi
if command -v python3 >/dev/null; then cost; else left_out "there is no Python" cost; fi
if [ -x "$bin/kernel_bench" ]; then step kernels 120 "$bin/kernel_bench"; else left_out "the bundle has no kernel_bench" kernels; fi
if [ -x "$bin/cpu_bench" ]; then step cpu 120 "$bin/cpu_bench"; else left_out "the bundle has no cpu_bench" cpu; fi
if python3 -c 'import numpy' 2>/dev/null; then compare; else left_out "there is no Python with numpy" compare; fi
if $fast; then
  left_out "--fast" memcheck racecheck
elif [ -z "$sanitizer" ]; then
  left_out "there is no compute-sanitizer" memcheck racecheck
else
  step memcheck 300 "$sanitizer" --tool memcheck --error-exitcode "$found" "$bin/engine_test" --gtest_filter='*Gpu*'
  step racecheck 180 "$sanitizer" --tool racecheck --error-exitcode "$found" "$bin/engine_test" --gtest_filter="$race_filter"
fi

# One file instead of many.
tar -C "$out" -czf "$out/logs.tar.gz" logs && rm -r "$out/logs"
echo "results: $out"
if [ "$failed" -gt 0 ]; then
  echo "$failed steps failed"
  exit 1
fi
echo "all steps passed"
