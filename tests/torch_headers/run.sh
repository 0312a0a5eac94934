#!/bin/sh
# run.sh SOURCE CXX REAL FOLDER wheel|archive: makes a libtorch in FOLDER from the headers in REAL,
# with headers of fmt and other libraries that are errors. Then it configures SOURCE with that
# libtorch, and lets the compiler read sources without building anything: those of adapters/torch
# with the headers of a wheel; the benchmark of trainings with those of an archive, once with the
# libraries of the system and once with fmt in a prefix.
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
  fmt/ranges.h fmt/std.h nlohmann/json.hpp nlohmann/json_fwd.hpp \
  spdlog/spdlog.h; do
  mkdir -p "$foreign/${header%/*}"
  echo "#error libtorch's own $header is included" > "$foreign/$header"
done

# configure NAME [OPTION...]: without precompiled headers, so that each command has all headers.
configure() {
  name=$1
  shift
  if [ "$kind" = wheel ]; then
    set -- "$@" -DTALLY_TORCH_WHEEL="$work/libtorch"
  else
    set -- "$@" -DTorch_DIR="$work/libtorch/share/cmake/Torch"
  fi
  cmake -S "$source" -B "$work/$name" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DTALLY_TORCH=ON \
    -DTALLY_CUDA=OFF -DTALLY_BUILD_BENCH=OFF "$@" > "$work/$name.log" 2>&1 || {
    cat "$work/$name.log"
    fail "$name was not configured"
  }
}

# compile NAME FMT TARGET...: the sources of each TARGET must include libtorch, and FMT/format.h.
compile() {
  name=$1
  shift
  "$source/tests/torch_headers/compile.py" "$work/$name" "$@" || fail "$name was not compiled"
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
if [ "$kind" = wheel ]; then
  compile found "$own" tally_torch
  echo "torch_headers: headers of a wheel do not replace those of the project's libraries"
  exit 0
fi
compile found "$own" tally_bench_train_torch
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
compile in_prefix "$prefix/include/fmt" tally_bench_train_torch
echo "torch_headers: headers of an archive do not replace those of the project's libraries"
