#!/usr/bin/env bash
# collect.sh FOLDER NAME ...: puts programs that were built into FOLDER/bin, stripped, and libraries of the CUDA toolkit into
# FOLDER/lib. What only a build with CUDA has is left out where it is not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly cuda=/usr/local/cuda/lib64
folder=$1
shift
mkdir -p "$folder/bin" "$folder/lib"
for name in "$@"; do
  case "$name" in
    lib*) [ ! -e "$cuda/$name" ] || cp -L "$cuda/$name" "$folder/lib/" ;;
    kernel_bench) [ ! -e "build/release/bin/$name" ] || strip -o "$folder/bin/$name" "build/release/bin/$name" ;;
    *) strip -o "$folder/bin/$name" "build/release/bin/$name" ;;
  esac
done
