# tally_module(NAME [DEPENDS module...] [LIBRARIES target...])
#
# Builds one folder of src/ with its subfolders: the library tally_NAME from `*.cc`, the program
# NAME_test (ctest label "unit") from `*_test.cc`, and the program NAME_bench from `*_bench.cc`
# (not with sanitizers).

function(tally_module name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc */*.cc)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")

  set(visibility PUBLIC)
  if(sources)
    add_library(tally_${name} STATIC ${sources})
    target_link_libraries(tally_${name} PRIVATE tally_options)
  else()
    add_library(tally_${name} INTERFACE)
    set(visibility INTERFACE)
  endif()
  # No bytes from outside reach these modules before others have checked them. Counters for fuzzers
  # would take a quarter of the time to compile.
  if(TALLY_FUZZ AND sources AND name MATCHES "^(kernel|optimizer|collective|exchange|train|sim)$")
    target_compile_options(tally_${name} PRIVATE -fno-sanitize=fuzzer-no-link)
  endif()
  target_include_directories(tally_${name} ${visibility}
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPENDS PREPEND tally_)
  target_link_libraries(tally_${name} ${visibility}
    ${ARG_DEPENDS} ${ARG_LIBRARIES} fmt::fmt Threads::Threads)

  # The thread sanitizer skips the tests of modules without threads.
  if(TALLY_SANITIZE STREQUAL "thread" AND
     name MATCHES "^(kernel|optimizer|wire|plan|data|policy|codec)$")
    set(tests "")
  endif()
  # Without optimisation, the tests of these modules would compute for minutes under sanitizers.
  set(optimise "")
  if(name MATCHES "^(kernel|codec|policy|optimizer|net|collective|exchange|train)$")
    set(optimise OPTIMISE)
  endif()
  if(tests)
    tally_test(${name}_test LABEL unit SOURCES ${tests} LIBRARIES tally_${name} ${optimise})
  endif()
  if(benches AND TALLY_BUILD_BENCH AND NOT TALLY_SANITIZE)
    find_package(benchmark QUIET)
    if(benchmark_FOUND)
      add_executable(${name}_bench ${benches})
      target_link_libraries(${name}_bench PRIVATE tally_${name} tally_options
        benchmark::benchmark benchmark::benchmark_main)
    endif()
  endif()
endfunction()

# tally_test(NAME LABEL label SOURCES file... LIBRARIES target... [TIMEOUT seconds] [OPTIMISE])
# Each test suite of the program is one ctest entry (DiscoverSuites.cmake). TIMEOUT is for a suite.
# OPTIMISE compiles the tests themselves with optimisation under sanitizers, too.
# Tests with the label gpu are registered only where there is a GPU (TALLY_GPU_TESTS).
# tools/run_ctest.sh reports skipped tests, which ctest cannot see inside a suite. Without
# TALLY_BUILD_TESTS no program is defined.
function(tally_test name)
  if(NOT TALLY_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "OPTIMISE" "LABEL;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1800)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE
    ${ARG_LIBRARIES} tally_options GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # The code under test is optimised; to optimise its tests as well would only take time to compile.
  if(CMAKE_BUILD_TYPE STREQUAL "Release" OR (TALLY_SANITIZE AND ARG_OPTIMISE))
    target_compile_options(${name} PRIVATE -O1)
  elseif(TALLY_SANITIZE)
    tally_unoptimised_test(${name})
  endif()
  if(TALLY_FUZZ)
    target_compile_options(${name} PRIVATE -fno-sanitize=fuzzer-no-link)
  endif()
  if(ARG_LABEL STREQUAL "gpu")
    tally_gpu_program(${name})
    if(NOT TALLY_RUN_GPU_TESTS)
      return()
    endif()
  endif()
  set(registration ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  add_custom_command(TARGET ${name} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${name}> -DPREFIX=${name} -DLABEL=${ARG_LABEL}
      -DTIMEOUT=${ARG_TIMEOUT} -DWORKING_DIRECTORY=${CMAKE_CURRENT_BINARY_DIR}
      -DOUTPUT=${registration} -P ${PROJECT_SOURCE_DIR}/cmake/DiscoverSuites.cmake)
  # A program that is not built has no suites to run: ctest names it and fails.
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake
    "if(EXISTS \"${registration}\")\n  include(\"${registration}\")\nelse()\n"
    "  add_test(${name}.NOT_BUILT ${name}.NOT_BUILT)\n"
    "  set_tests_properties(${name}.NOT_BUILT PROPERTIES LABELS ${ARG_LABEL})\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY
    TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake)
endfunction()

# All tests that sanitizers take without optimisation share one precompiled header: GoogleTest and
# fmt take more than a second to parse. In release builds clang-tidy could not read it.
function(tally_unoptimised_test target)
  if(NOT TARGET tally_test_pch)
    file(WRITE ${PROJECT_BINARY_DIR}/tally_test_pch.cc "\n")
    add_library(tally_test_pch OBJECT ${PROJECT_BINARY_DIR}/tally_test_pch.cc)
    target_link_libraries(tally_test_pch PRIVATE
      tally_options fmt::fmt GTest::gmock Threads::Threads)
    target_precompile_headers(tally_test_pch PRIVATE
      <fmt/format.h> <gmock/gmock.h> <algorithm> <chrono> <filesystem> <fstream> <functional> <map>
      <span> <thread>)
    # Programs are compiled with -fPIE, which the header must match.
    set_target_properties(tally_test_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(tally_test_pch PRIVATE -fPIE -O0)
    if(TALLY_FUZZ)
      target_compile_options(tally_test_pch PRIVATE -fno-sanitize=fuzzer-no-link)
    endif()
  endif()
  target_compile_options(${target} PRIVATE -O0)
  target_precompile_headers(${target} REUSE_FROM tally_test_pch)
endfunction()

# Defines a target for include/tally. Every build compiles each of its headers on its own.
function(tally_public_headers)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/tally/*.h)
  add_library(tally_headers INTERFACE)
  target_sources(tally_headers INTERFACE FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})
  target_link_libraries(tally_headers INTERFACE tally_options)
  set_target_properties(tally_headers PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  add_custom_target(tally_headers_stand_alone ALL)
  add_dependencies(tally_headers_stand_alone tally_headers_verify_interface_header_sets)
endfunction()
