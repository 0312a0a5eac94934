#!/bin/sh
# run.sh SOURCE CXX REAL FOLDER wheel|archive: makes a libtorch in FOLDER from the headers in REAL,
# with headers of fmt, nlohmann-json and spdlog that are errors. Then it configures SOURCE with that
# libtorch, once with the libraries of the system and once with fmt in a prefix, and preprocesses
# files of the project. It builds nothing.
set -eu

source=$1
cxx=$2
real=$3
work=$4/$5
kind=$5

fail() {
  echo "torch_headers: $1" >&2
  exit 1
}

rm -rf "$work"
foreign=$work/libtorch/include
mkdir -p "$foreign" "$work/libtorch/lib"
for folder in torch ATen c10 caffe2; do
  [ ! -e "$real/$folder" ] || ln -s "$real/$folder" "$foreign/$folder"
done
for header in fmt/args.h fmt/base.h fmt/chrono.h fmt/color.h fmt/core.h fmt/format.h fmt/ostream.h \
  fmt/ranges.h fmt/std.h nlohmann/json.hpp nlohmann/json_fwd.hpp spdlog/spdlog.h; do
  mkdir -p "$foreign/${header%/*}"
  echo "#error libtorch's own $header is included" > "$foreign/$header"
done

# configure NAME [OPTION...]: with Makefiles, which have a target for the preprocessed text of each
# file. g++ reads a precompiled header that was not built as text.
configure() {
  name=$1
  shift
  if [ "$kind" = wheel ]; then
    set -- "$@" -DTALLY_TORCH_WHEEL="$work/libtorch"
  else
    set -- "$@" -DTorch_DIR="$work/libtorch/share/cmake/Torch"
  fi
  # clang, unlike g++, does not read a precompiled header as text.
  ! "$cxx" --version | grep -q clang || set -- "$@" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
  cmake -S "$source" -B "$work/$name" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_UNITY_BUILD=OFF -DTALLY_TORCH=ON -DTALLY_BUILD_TESTS=OFF \
    -DTALLY_BUILD_BENCH=OFF -DTALLY_BUILD_EXAMPLES=OFF "$@" > "$work/$name.log" 2>&1 || {
    cat "$work/$name.log"
    fail "$name was not configured"
  }
}

# preprocess NAME FMT FILE...: each FILE of the project must include libtorch, and FMT/format.h.
# The compiler names libtorch's headers by what their links point to.
preprocess() {
  name=$1
  fmt=$2
  shift 2
  for file in "$@"; do
    folder=$work/$name/$(dirname "$file")
    base=$(basename "$file" .cc)
    make -C "$folder" "$base.i" > "$work/make.log" 2>&1 || {
      cat "$work/make.log"
      fail "$name: $file was not preprocessed"
    }
    text=$(find "$folder/CMakeFiles" -name "$base.cc.i")
    grep -q '/torch/all\.h"' "$text" || fail "$name: $file is without libtorch"
    grep -qF "\"$fmt/format.h\"" "$text" || fail "$name: $file is without $fmt"
    rm "$text"
  done
}

if [ "$kind" = archive ]; then
  mkdir -p "$work/libtorch/share/cmake/Torch"
  cat > "$work/libtorch/share/cmake/Torch/TorchConfig.cmake" << END
set(TORCH_FOUND TRUE)
set(TORCH_INCLUDE_DIRS $foreign $foreign/torch/csrc/api/include)
add_library(torch INTERFACE IMPORTED)
set_target_properties(torch PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "\${TORCH_INCLUDE_DIRS}")
set(TORCH_LIBRARIES torch)
END
fi

configure found
own=$(sed -n 's/.*libtorch has headers of fmt; \(.*\) comes before them$/\1/p' "$work/found.log")
own=${own:-/usr/include/fmt}
preprocess found "$own" adapters/torch/tensors.cc bench/train/problem.cc

prefix=$work/prefix
mkdir -p "$prefix/include" "$prefix/lib/cmake/fmt"
cp -r "$own" "$prefix/include/fmt"
cat > "$prefix/lib/cmake/fmt/fmt-config.cmake" << END
if(TARGET fmt::fmt)
  return()
endif()
add_library(fmt::fmt INTERFACE IMPORTED)
set_target_properties(fmt::fmt PROPERTIES INTERFACE_INCLUDE_DIRECTORIES $prefix/include)
END
configure in_prefix -DCMAKE_PREFIX_PATH="$prefix"
preprocess in_prefix "$prefix/include/fmt" adapters/torch/tensors.cc
echo "torch_headers: headers of libtorch's $kind do not replace those of the project's libraries"
