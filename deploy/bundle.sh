#!/usr/bin/env bash
# Makes a folder of programs that runs on a machine with nothing but its C library: bin/ with the programs, stripped, and lib/
# with the shared libraries they need. The folder may be moved; programs find lib/ by their run path, $ORIGIN/../lib. A driver's
# libraries are never taken along: they belong to the machine.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: deploy/bundle.sh [OPTION ...] [PROGRAM ...]

  --from DIR   where the programs are (default: build/release/bin); without PROGRAMs all of them are taken
  --out DIR    the folder to make, emptied first if it is a bundle (default: bundle)
  --demo DIR   also take along what `deploy/demo.sh --prepare-only --work DIR` left, as demo/
USAGE
}

readonly max_mib=60
readonly mark=.widelane-bundle
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
from=$root/build/release/bin out=$root/bundle demo=""
programs=()

fail() {
  printf 'bundle.sh: %s\n' "$*" >&2
  exit 1
}

parse_arguments() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --from | --out | --demo)
        [ $# -ge 2 ] || fail "$1 needs a value"
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
      -h | --help)
        usage
        exit 0
        ;;
      -*) fail "unknown option '$1'; --help tells which there are" ;;
      *) programs+=("$1") ;;
    esac
    shift
  done
}

# Every executable in $from, if none was named.
find_programs() {
  [ ${#programs[@]} -eq 0 ] || return 0
  local file
  for file in "$from"/*; do
    if [ -f "$file" ] && [ -x "$file" ]; then programs+=("${file##*/}"); fi
  done
  [ ${#programs[@]} -gt 0 ] || fail "there are no programs in $from; build them first"
}

# Nothing is removed that this script has not made.
empty_out() {
  if [ -e "$out" ]; then
    [ -e "$out/$mark" ] || fail "$out exists and is no bundle; name another folder with --out"
    rm -rf "$out"
  fi
  mkdir -p "$out/bin" "$out/lib"
  touch "$out/$mark"
}

# A new-style run path would not serve the libraries' own libraries.
check_run_path() {
  # The name is literal in the file.
  # shellcheck disable=SC2016
  readelf -d "$1" | grep -q 'RPATH.*\[.*$ORIGIN/\.\./lib' || fail "$1 has no run path \$ORIGIN/../lib (of the kind RPATH)"
}

check_no_driver() {
  if readelf -d "$1" | grep -E 'NEEDED.*\[lib(cuda|nvidia)[.-]'; then fail "$1 is linked to a driver's library"; fi
}

# Libraries that belong to the C library and so to the machine.
is_system() {
  case "$1" in
    linux-vdso.* | ld-linux* | libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libresolv.so.* | \
      libutil.so.* | libanl.so.* | libnsl.so.*) return 0 ;;
  esac
  return 1
}

copy_libraries() {
  local file=$1 name path
  if ldd "$file" | grep 'not found'; then fail "$file lacks libraries on this machine"; fi
  while read -r name path; do
    if is_system "$name" || [ -e "$out/lib/$name" ]; then continue; fi
    cp -L "$path" "$out/lib/$name"
  done < <(ldd "$file" | sed -n 's/^[[:space:]]*\([^ /]*\) => \(\/[^ ]*\) .*/\1 \2/p')
}

parse_arguments "$@"
find_programs
[ -z "$demo" ] || [ -d "$demo" ] || fail "there is no folder $demo"
for program in "${programs[@]}"; do
  [ -x "$from/$program" ] || fail "there is no program $from/$program"
done
empty_out
for program in "${programs[@]}"; do
  check_run_path "$from/$program"
  check_no_driver "$from/$program"
  copy_libraries "$from/$program"
  strip -o "$out/bin/$program" "$from/$program"
done
if [ -n "$demo" ]; then cp -R "$demo" "$out/demo"; fi

kib=$(du -sk --apparent-size "$out" | cut -f 1)
[ "$kib" -le $((max_mib * 1024)) ] || fail "$out takes $((kib / 1024)) MiB, more than $max_mib; name fewer programs"
echo "$out: ${#programs[@]} programs, $(find "$out/lib" -type f | wc -l) libraries, $((kib / 1024)) MiB"
