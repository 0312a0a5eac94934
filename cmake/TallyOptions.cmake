# Compiler settings that hold for every target of the project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(TALLY_SANITIZE "" CACHE STRING "Sanitizers to build with, as in -fsanitize=")
option(TALLY_FUZZ "Build the libFuzzer targets (needs clang)" OFF)

find_program(TALLY_CCACHE ccache)
if(TALLY_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${TALLY_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TALLY_CCACHE})
endif()

add_library(tally_options INTERFACE)
target_compile_options(tally_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Wcast-qual -Wundef -Wno-missing-field-initializers
  -Werror=unused-result -Werror=return-type)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # Not precise: a mutex that is known by two names, as a reference is, counts as one.
  target_compile_options(tally_options INTERFACE -Wthread-safety -Wno-thread-safety-precise)
endif()
if(TALLY_SANITIZE)
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan> -fsanitize=${TALLY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TALLY_SANITIZE})
endif()
if(TALLY_FUZZ)
  # What libFuzzer steers by; the targets themselves link with -fsanitize=fuzzer.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
