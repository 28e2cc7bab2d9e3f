#!/usr/bin/env bash
# Installs what the tests need, builds and runs all of them from a clean clone. tests/README.md tells the steps.
#
#   tests/run.sh [STEP ...]     steps: install format shell cpu deploy tidy cuda asan tsan fuzz; without one: all, in this order;
#                               and tidy-all, which takes an hour, and image (root), which takes some minutes
#
# Environment: WIDELANE_FUZZ_SECONDS (each fuzzer's time, 60), WIDELANE_TEST_DATA (folder of public data sets; without it
# their tests are skipped). The last line counts test cases and checks; the exit code is 0 if none failed.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
readonly steps=(install format shell cpu deploy tidy cuda asan tsan fuzz) more_steps=(tidy-all image)
readonly test_timeout_s=300 group_timeout_s=600 group_tests=30
# All tests; what takes longest goes first.
readonly programs=(integration_test client_test driver_test engine_test server_test)
# A build that shares no objects with others joins all files; the step cpu, only those of tests that no other build has.
readonly alone=(-DWIDELANE_TESTS=ON -DWIDELANE_UNITY=ALL)
# The steps cuda and tidy, and the demo, take what the step cpu has compiled: warnings that are errors make no other objects, and
# neither does the folder's name.
export CCACHE_IGNOREOPTIONS=-Werror CCACHE_BASEDIR=$root
jobs=$(nproc)
passed=0 failed=0 skipped=0

# Count one check, or so many.
pass() { passed=$((passed + ${1:-1})); }
fail() {
  failed=$((failed + ${2:-1}))
  echo "FAILED: $1"
}
skip() {
  skipped=$((skipped + ${2:-1}))
  echo "SKIPPED: $1"
}
check() {
  local what=$1
  shift
  if "$@"; then pass; else fail "$what"; fi
}

# Our own files with these endings, zero-terminated.
sources() {
  local ending expression=()
  for ending in "$@"; do expression+=(-o -name "*.$ending"); done
  find engine server client deploy tests -type f \( "${expression[@]:1}" \) -print0 | sort -z
}

# build PRESET FOLDER TARGETS [CMAKE OPTION ...]: quiet unless it fails.
build() {
  local preset=$1 folder=$2 log=$2.log targets launcher=()
  read -ra targets <<<"$3"
  shift 3
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  if cmake --preset "$preset" -B "$folder" "${launcher[@]}" "$@" >"$log" 2>&1 &&
    cmake --build "$folder" -j "$jobs" --target "${targets[@]}" >>"$log" 2>&1; then
    return 0
  fi
  tail -n 60 "$log"
  fail "building $folder; all of its output is in $log"
  return 1
}

# groups LIST: tests that a program has listed in groups of suites, as filters of their own, one a line. A process for each test
# would take longer to start than most tests take.
groups() {
  awk -v most="$group_tests" '
    function flush() { if (count > 0) print filter; filter = ""; count = 0 }
    function end_suite(  i) {
      if (count + size > most) flush()
      for (i = 1; i <= size; ++i) {
        if (count == most) flush()
        filter = filter (count++ ? ":" : "") names[i]
      }
      size = 0
    }
    /^[^ ].*[.]/ { end_suite(); suite = $1 }
    /^  / { names[++size] = suite $1 }
    END { end_suite(); flush() }' "$1"
}

# run_group PROGRAM FILTER LOG: its tests in one process, which leaves its exit code beside the log.
run_group() {
  timeout -k 10 "$group_timeout_s" "${runner[@]}" "$1" "--gtest_filter=$2" >"$3" 2>&1 </dev/null
  echo $? >"$3.rc"
}

# run_tests FOLDER PROGRAM[=FILTER] ...: tests of a build folder's programs, as many groups at once as there are cores. Those
# that passed are counted, not listed.
run_tests() {
  local folder=$1 logs=$1/test-logs log program filter before number=0
  shift
  rm -rf "$logs"
  mkdir -p "$logs"
  for program in "$@"; do
    filter=
    [ "$program" = "${program%%=*}" ] || filter=${program#*=}
    program=${program%%=*}
    before=$number
    "${runner[@]}" "$folder/bin/$program" --gtest_list_tests ${filter:+"--gtest_filter=$filter"} >"$logs/$program.list" ||
      fail "listing the tests of $folder/bin/$program"
    while read -r filter; do
      while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
      number=$((number + 1))
      run_group "$folder/bin/$program" "$filter" "$logs/$(printf '%03d' $number)-$program" &
    done < <(groups "$logs/$program.list")
    [ "$number" -gt "$before" ] || fail "$folder/bin/$program has no tests"
  done
  wait
  for log in "$logs"/*.rc; do [ ! -e "$log" ] || count_tests "${log%.rc}"; done
  grep -hA 1 ': Skipped$' "$logs"/* | grep -vE ': Skipped$|^--$' | sort | uniq -c
}

# A test's own last line in a log: "[       OK ] Suite.Test (3 ms)".
ended() { grep -E "\\[ +$1 +\\] .* \\([0-9]+ ms\\)\$" "$2"; }

# count_tests LOG: counts what a process ran, and shows what failed. Tests that it did not come to have failed.
count_tests() {
  local log=$1 total good ignored code bad names
  code=$(cat "$log.rc")
  total=$(sed -n 's/.*\[=*\] Running \([0-9]*\) tests\{0,1\} from .*/\1/p' "$log" | head -n 1)
  good=$(ended OK "$log" | wc -l)
  ignored=$(ended SKIPPED "$log" | wc -l)
  bad=$((${total:-1} - good - ignored))
  pass "$good"
  [ "$ignored" -eq 0 ] || skip "$(ended SKIPPED "$log" | sed 's/.*SKIPPED \] //; s/ (.*//' | paste -sd ' ')" "$ignored"
  if [ "$code" -eq 0 ] && [ "$bad" -eq 0 ]; then return; fi
  # Each test that failed, and what was printed last: by the test that ended the process, or of all.
  awk '/\[ +RUN +\]/ { test = "" } { test = test $0 "\n" } /\[  FAILED  \].* ms\)$/ { printf "%s", test; test = "" }
    END { printf "%s", test }' "$log" | tail -n 200
  names=$(ended FAILED "$log" | sed 's/.*FAILED  \] //; s/[ ,].*//')
  case $code in
    0 | 1) [ "$(wc -w <<<"$names")" -ge "$bad" ] || names+=" $(last_test "$log") (ended with code $code)" ;;
    124 | 137) names+=" $(last_test "$log") (stopped after $group_timeout_s s)" ;;
    *) names+=" $(last_test "$log") (ended with code $code)" ;;
  esac
  [ "$bad" -gt 0 ] || bad=1
  fail "$bad tests: ${names//$'\n'/ }; all output is in $log" "$bad"
}

# The test that began last.
last_test() { sed -n 's/.*\[ RUN      \] //p' "$1" | tail -n 1; }

runner=()

step_install() { check "installing packages" deploy/install-deps.sh test; }

step_format() {
  local tool
  if ! tool=$(command -v clang-format-14); then
    skip "format: clang-format-14 is not there, and other versions format differently"
    return
  fi
  sources h cc cu cuh c >build/files
  check "format" xargs -0 -a build/files "$tool" --dry-run -Werror
}

step_shell() {
  find .ci deploy docker tests \( -name '*.sh' -o -path .ci/run \) -type f -print0 >build/files
  check "shellcheck" xargs -0 -a build/files shellcheck
}

step_cpu() {
  if build cpu build/cpu all -DWIDELANE_TESTS=ON -DWIDELANE_UNITY=TESTS; then run_tests build/cpu "${programs[@]}"; fi
}

# python_tests FILE [ARGUMENT ...]: Python's unittest, which counts for itself, by the distribution's own Python.
python_tests() {
  local log total ignored code=0
  log=build/$(basename "$1").log
  timeout -k 10 "$test_timeout_s" /usr/bin/python3 -B "$@" >"$log" 2>&1 </dev/null || code=$?
  total=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} in .*/\1/p' "$log")
  ignored=$(sed -n 's/^OK (.*skipped=\([0-9]*\).*/\1/p' "$log")
  case $code in
    0)
      if [ "${total:-0}" -eq 0 ]; then
        fail "$1 ran no tests"
        return
      fi
      pass $((total - ${ignored:-0}))
      [ -z "$ignored" ] || skip "in $1: $(grep -o "skipped .*" "$log" | sort -u | paste -sd " ")" "$ignored"
      ;;
    77) skip "$1: $(tail -n 1 "$log")" ;;
    *)
      tail -n 100 "$log"
      fail "$1 (code $code); all output is in $log"
      ;;
  esac
}

# What deploy/ has for those who watch the server, and a real Prometheus that does.
step_deploy() {
  build cpu build/cpu "widelane-server widelane" || return
  python_tests tests/deploy/files_test.py
  python_tests tests/deploy/prometheus_test.py build/cpu/bin
}

# tidy FOLDERS [OPTION ...]: clang-tidy on our files in these folders, with the flags of the preset cpu. In a build folder of its
# own, whose files are all compiled alone; only the headers made from .proto files have to be there.
tidy() {
  local tool folders
  read -ra folders <<<"$1"
  shift
  if ! tool=$(command -v clang-tidy-14); then
    skip "tidy: clang-tidy-14 is not there, and other versions find other things"
    return
  fi
  build cpu build/tidy widelane_proto -DWIDELANE_TESTS=ON || return
  case " ${folders[*]} " in
    *' tests '*) build cpu build/tidy widelane_test_support || return ;;
  esac
  sources cc | grep -zE "^($(IFS='|' && echo "${folders[*]}"))/" | grep -zvE '^(tests/fuzz|engine/src/cuda)/' >build/files
  check "clang-tidy" xargs -0 -a build/files -n 1 -P "$jobs" \
    timeout "$test_timeout_s" "$tool" -p build/tidy --quiet "$@"
}

# Path analysis and two other checks take most of the time of all; tests are as many files as the product.
step_tidy() {
  tidy 'engine server client deploy' \
    '--checks=-clang-analyzer-*,-performance-unnecessary-value-param,-bugprone-reserved-identifier'
}
step_tidy-all() { tidy 'engine server client deploy tests'; }

# The CUDA backend: the product compiles, and the engine's tests run on the GPUs there are. In a folder of its own, for one
# architecture, that of the GPU here, is enough to test and too little to hand out.
step_cuda() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    skip "cuda: there is no CUDA toolkit, so the CUDA backend is not compiled"
    return
  fi
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -dc '0-9')
  build release build/cuda "widelane-server widelane tests/engine/all driver_test" -DWIDELANE_TESTS=ON -DWIDELANE_CUDA=ON -DWIDELANE_WERROR=ON \
    "-DWIDELANE_CUDA_ARCHITECTURES=${architecture:-90}-real" || return
  # Where there is a GPU, tests of it that skip are tests that failed.
  [ -z "$architecture" ] || local -x WIDELANE_REQUIRE_GPU=1
  # What the CPU computes is the step cpu's.
  # Drivers that cannot be used, played by a library of ours.
  run_tests build/cuda 'engine_test=-*Contract.*Threads*:*RowKernelsTest*' driver_test
}

step_asan() {
  local -x ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
  local -x LSAN_OPTIONS=
  [ ! -e tests/support/lsan.supp ] || LSAN_OPTIONS=suppressions=$root/tests/support/lsan.supp
  # Best are the same kernels by other numbers of threads.
  if build asan build/asan "${programs[*]}" "${alone[@]}"; then
    run_tests build/asan integration_test client_test driver_test 'engine_test=-*Contract.*BestThreads*' server_test
  fi
}

step_tsan() {
  local -x TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  [ ! -e tests/support/tsan.supp ] || TSAN_OPTIONS+=:suppressions=$root/tests/support/tsan.supp
  build tsan build/tsan "${programs[*]}" "${alone[@]}" || return
  # Kernels that place libraries far apart confuse this sanitizer; turning that off is not allowed everywhere.
  if setarch "$(uname -m)" -R true 2>/dev/null; then runner=(setarch "$(uname -m)" -R); fi
  # What one thread computes alone takes long here and shows nothing; two numbers of threads are enough, and one kind of
  # kernels for each.
  run_tests build/tsan integration_test client_test driver_test 'engine_test=-*Contract.*:*RowKernelsTest*' \
    'engine_test=*Contract.*/PlainThreads5:*Contract.*/BestThreads8' server_test
  runner=()
}

# Builds the image and tries it; one check here.
step_image() { check "image" tests/image.sh; }

step_fuzz() {
  local fuzzer name compilers=()
  if ! command -v clang++-14 >/dev/null; then
    if ! command -v clang++ >/dev/null; then
      skip "fuzz: clang is not there"
      return
    fi
    compilers=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
  fi
  build fuzz build/fuzz tests/fuzz/all "${compilers[@]}" || return
  # As many at once as there are cores; each leaves its exit code.
  rm -f build/fuzz/*.rc
  for fuzzer in build/fuzz/bin/*_fuzz; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    fuzz_one "$fuzzer" &
  done
  wait
  for fuzzer in build/fuzz/bin/*_fuzz; do
    name=$(basename "$fuzzer")
    if [ "$(cat "build/fuzz/$name.rc")" = 0 ]; then
      pass
      tail -n 1 "build/fuzz/$name.log"
    else
      tail -n 40 "build/fuzz/$name.log"
      fail "$name"
    fi
  done
}

# fuzz_one FUZZER: runs it for its time; output and exit code in build/fuzz.
fuzz_one() {
  local name seeds corpora
  name=$(basename "$1")
  corpora=("build/fuzz/corpus/$name") seeds=tests/fuzz/corpus/${name%_fuzz}
  mkdir -p "${corpora[0]}"
  [ ! -d "$seeds" ] || corpora+=("$seeds")
  timeout "$test_timeout_s" "$1" -max_total_time="${WIDELANE_FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=4096 \
    -artifact_prefix="build/fuzz/$name." "${corpora[@]}" >"build/fuzz/$name.log" 2>&1
  echo $? >"build/fuzz/$name.rc"
}

if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
for step in "$@"; do
  if [[ " ${steps[*]} ${more_steps[*]} " != *" $step "* ]]; then
    echo "run.sh: there is no step '$step'; there are: ${steps[*]} ${more_steps[*]}" >&2
    exit 2
  fi
done

# Data sets that are not part of the project may lie beside it.
if [ -z "${WIDELANE_TEST_DATA:-}" ] && [ -d ../shared/data ]; then
  WIDELANE_TEST_DATA=$(cd ../shared/data && pwd)
  export WIDELANE_TEST_DATA
fi

[ $# -gt 0 ] || set -- "${steps[@]}"
mkdir -p build
for step in "$@"; do
  echo "=== $step"
  start=$SECONDS
  "step_$step"
  echo "=== $step took $((SECONDS - start)) s"
  if [ "$step" = install ] && [ "$failed" -gt 0 ]; then break; fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
