#!/bin/sh
# run.sh BUILD CXX core|torch: installs the build into a temporary prefix, moves the prefix, then
# builds and runs a user's programs against it. The script names the step that failed and removes
# its files.
set -eu

build=$1
cxx=$2
part=$3
. "$(dirname "$0")/common.sh"

expect() { # WHAT EXPECTED FOUND
  [ "$2" = "$3" ] || fail "$1: expected \"$2\", found \"$3\""
}

# The prefix must still work after it was moved.
cmake --install "$build" --prefix "$work/first" > "$work/install.log" ||
  fail "cmake --install failed"
mv "$work/first" "$work/prefix"
prefix=$work/prefix
folder=$(dirname "$(find "$prefix" -name libtally.a)")
for file in LICENSE README.md docs/porting.md examples/03_libtorch/main.cc; do
  [ -s "$prefix/share/doc/tally/$file" ] || fail "share/doc/tally/$file was not installed"
done
# The installed files must not contain the path of the build folder.
grep -rIl "$build" "$prefix" && fail "these name the build folder"
grep -q "$build" "$folder/libtally.a" && fail "libtally.a names the build folder"

configure() { # NAME [OPTION...]
  name=$1
  shift
  cmake -S "$here/$name" -B "$work/$name" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release "$@" > "$work/$name.log" 2>&1
}
build_with_cmake() { # NAME
  { configure "$1" && cmake --build "$work/$1" >> "$work/$1.log" 2>&1; } || {
    cat "$work/$1.log"
    fail "$1 was not built"
  }
}

if [ "$part" = torch ]; then
  build_with_cmake with_torch
  "$work/with_torch/consumer"
  exit 0
fi

build_with_cmake with_cmake
expect "with_cmake" "sum 3, read 3 of step 7" "$("$work/with_cmake/consumer" "$work/checkpoints")"

for flags in "" --static; do
  rm -rf "$work/with_make"
  mkdir "$work/with_make"
  cp "$here/with_make/Makefile" "$here/main.cc" "$work/with_make"
  PKG_CONFIG_PATH=$folder/pkgconfig \
    make -s -C "$work/with_make" CXX="$cxx" PKG_CONFIG_FLAGS="$flags" ||
    fail "with_make $flags was not built"
  expect "with_make $flags" "sum 3, read 3 of step 7" \
    "$("$work/with_make/consumer" "$work/checkpoints")"
done

# A program that requires a newer version must not configure.
sed 's/Tally 0.1/Tally 0.2/; s|\.\./main.cc|main.cc|' "$here/with_cmake/CMakeLists.txt" \
  > "$work/with_make/CMakeLists.txt"
cmake -S "$work/with_make" -B "$work/newer" -DCMAKE_PREFIX_PATH="$prefix" \
  > "$work/newer.log" 2>&1 &&
  fail "find_package(Tally 0.2) was content with $("$prefix/bin/tally" --version)"
grep -q "requested version \"0.2\"" "$work/newer.log" ||
  fail "find_package(Tally 0.2) failed for another reason"

"$prefix/bin/tally" inspect checkpoint "$work/checkpoints" > "$work/inspect.log" ||
  fail "the installed tally failed"
"$prefix/bin/tally" run -n 2 -- "$work/with_cmake/consumer" --join | grep -q "joined 2 ranks" ||
  fail "two ranks did not join"

# The programs of the prefix find its plugins; a user's program finds them by TALLY_PLUGIN_DIR.
for plugin in "$folder"/tally/libtally_mpi_*.so; do
  [ -e "$plugin" ] || continue
  mpi=$(basename "$plugin" .so | sed 's/libtally_mpi_//')
  cp "$work/with_cmake/consumer" "$prefix/bin/consumer"
  beside=$(TALLY_ENGINE=mpi TALLY_MPI=$mpi OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$prefix/bin/consumer" --join 2>&1 | tail -1)
  expect "engine=mpi with $mpi from the prefix" "joined 1 ranks" "$beside"
  told=$(TALLY_PLUGIN_DIR=$folder/tally TALLY_ENGINE=mpi TALLY_MPI=$mpi OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$work/with_cmake/consumer" --join 2>&1 | tail -1)
  expect "engine=mpi with $mpi by TALLY_PLUGIN_DIR" "joined 1 ranks" "$told"
done
echo "consumer: built and run by find_package and by pkg-config, from a prefix that was moved"
