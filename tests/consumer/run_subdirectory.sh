#!/bin/sh
# run_subdirectory.sh SOURCE CXX TORCH: configures a project that contains the source tree, without
# and (if TORCH is 1) with libtorch, and compiles its program. It does not build the library, which
# the test `consumer` links.
set -eu

source=$1
cxx=$2
has_torch=$3
. "$(dirname "$0")/common.sh"

configure() { # NAME [OPTION...]
  name=$1
  shift
  # The packages of tests and benchmarks must not be necessary.
  cmake -S "$here/with_subdirectory" -B "$work/$name" -G Ninja -DTALLY_SOURCE="$source" \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON "$@" > "$work/log" 2>&1 || {
    cat "$work/log"
    fail "$name was not configured"
  }
}
targets() { # NAME: all targets of the build
  ninja -C "$work/$1" -t targets all
}

configure core -DTALLY_TORCH=OFF -DTALLY_BUILD_PROGRAMS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON
more="_test: \|kernel_bench: \|overhead_bench: \|01_accumulator: "
targets core | grep -q "$more" && fail "tests, benchmarks or examples that nobody asked for"
targets core | grep -q "/tally: " && fail "programs in spite of TALLY_BUILD_PROGRAMS=OFF"
# The object alone: it needs the include folders and C++20 of Tally::tally.
object=$(ninja -C "$work/core" -t inputs consumer | grep "consumer\.dir/.*main\.cc\.o$")
ninja -C "$work/core" "$object" > "$work/log" 2>&1 || {
  cat "$work/log"
  fail "the program was not compiled"
}
grep -q "CMAKE_UNITY_BUILD:" "$work/core/CMakeCache.txt" && fail "the project got unity builds"

if [ "$has_torch" = 1 ]; then
  configure torch
  targets torch | grep -q "^trainer: " || fail "no target Tally::torch"
  targets torch | grep -q "$more" && fail "tests, benchmarks or examples with libtorch"
  targets torch | grep -q "/tally-train: " || fail "no tally-train"
fi
echo "consumer: a project that contains Tally was configured, and its program compiled"
