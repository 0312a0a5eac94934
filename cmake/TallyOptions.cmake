# Compiler settings that hold for every target of the project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Without a build type CMake does not optimise, and training would be slow.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
  else()
    message(NOTICE "Tally: CMAKE_BUILD_TYPE is not set, so Tally is not optimised; "
      "-DCMAKE_BUILD_TYPE=Release optimises it")
  endif()
endif()

# A project that contains this one links the packages that are found here.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)

# A project that contains this one builds the libraries and the programs, unless it asks for more.
option(TALLY_BUILD_PROGRAMS "Build tally and, with libtorch, tally-train" ON)
option(TALLY_BUILD_TESTS "Build the tests; needs GTest" ${PROJECT_IS_TOP_LEVEL})
option(TALLY_BUILD_BENCH "Build the benchmarks that are programs of their own"
  ${PROJECT_IS_TOP_LEVEL})
option(TALLY_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(TALLY_INSTALL "Define the installation" ${PROJECT_IS_TOP_LEVEL})
if(TALLY_BUILD_TESTS AND NOT (TALLY_BUILD_PROGRAMS AND TALLY_BUILD_EXAMPLES))
  message(FATAL_ERROR "TALLY_BUILD_TESTS is ON: the tests run the programs and the examples, so "
    "TALLY_BUILD_PROGRAMS and TALLY_BUILD_EXAMPLES must be ON")
endif()

set(TALLY_SANITIZE "" CACHE STRING "Sanitizers to build with, as in -fsanitize=")
option(TALLY_FUZZ "Build the libFuzzer targets (needs clang)" OFF)

# The compiler takes sixteen files of a target at once, in a quarter of the processor time. Names in
# the anonymous namespaces of a target must therefore differ. OFF compiles each file alone, as
# `make standalone` does to find missing includes.
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)

# ccache hashes paths relative to the checkout, so that all clones share their results.
find_program(TALLY_CCACHE ccache)
if(TALLY_CCACHE)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${TALLY_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

add_library(tally_options INTERFACE)
# __FILE__ is relative to the checkout: messages are shorter, and ccache can share objects between
# clones.
target_compile_options(tally_options INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_options(tally_options INTERFACE
  -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Wold-style-cast
  -Wcast-qual -Wundef -Wno-missing-field-initializers
  -Werror=unused-result -Werror=return-type)
# In a batch, names of one file would count as shadowed by the anonymous namespaces of another.
if(NOT CMAKE_UNITY_BUILD)
  target_compile_options(tally_options INTERFACE -Wshadow)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tally_options INTERFACE -Wshadow=local -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # The precise analysis would treat a mutex and a reference to it as two mutexes.
  target_compile_options(tally_options INTERFACE -Wthread-safety -Wno-thread-safety-precise)
endif()
if(TALLY_SANITIZE)
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan> -fsanitize=${TALLY_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(TALLY_SANITIZE MATCHES "undefined")
    # Its checks for null take a seventh of the time to compile. A read or write through a null
    # pointer ends the process without them; a null reference that is never used goes unnoticed.
    add_compile_options(-fno-sanitize=null)
  endif()
  add_link_options(-fsanitize=${TALLY_SANITIZE})
  # For tests that do less where they are slow. The compilers have different macros for this.
  add_compile_definitions(TALLY_SANITIZED)
  if(TALLY_SANITIZE MATCHES "thread")
    add_compile_definitions(TALLY_SANITIZED_THREAD)
  endif()
endif()
if(TALLY_FUZZ)
  # This adds the coverage counters of libFuzzer, which do nothing in other programs; the fuzz
  # targets link with -fsanitize=fuzzer.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
