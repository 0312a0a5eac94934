# tally_module(NAME [DEPENDS module...] [LIBRARIES target...])
#
# One folder of src/ and its subfolders: `*.cc` become the library tally_NAME, each `*_test.cc` joins
# the program NAME_test (ctest label "unit"), each `*_bench.cc` the program NAME_bench.

include(GoogleTest)

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
  target_include_directories(tally_${name} ${visibility}
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPENDS PREPEND tally_)
  target_link_libraries(tally_${name} ${visibility}
    ${ARG_DEPENDS} ${ARG_LIBRARIES} fmt::fmt Threads::Threads)

  # What has no thread has nothing to show to the thread sanitizer.
  if(TALLY_SANITIZE STREQUAL "thread" AND name MATCHES "^(kernel|optimizer|wire|plan|data|policy|codec)$")
    set(tests "")
  endif()
  if(tests)
    tally_test(${name}_test LABEL unit SOURCES ${tests} LIBRARIES tally_${name})
  endif()
  if(benches)
    find_package(benchmark QUIET)
    if(benchmark_FOUND)
      add_executable(${name}_bench ${benches})
      target_link_libraries(${name}_bench PRIVATE tally_${name} tally_options
        benchmark::benchmark benchmark::benchmark_main)
    endif()
  endif()
endfunction()

# tally_test(NAME LABEL label SOURCES file... LIBRARIES target... [TIMEOUT seconds] [WHOLE])
# Each TEST is one ctest entry; with WHOLE the program is one entry, which fails if it skips a test:
# ctest could not show that.
function(tally_test name)
  cmake_parse_arguments(ARG "WHOLE" "LABEL;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} tally_options GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(TALLY_SANITIZE)
    # What is tested is optimised a little; optimising the tests would double the time to compile them.
    target_compile_options(${name} PRIVATE -O0)
  endif()
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
      FAIL_REGULAR_EXPRESSION "\\[  SKIPPED \\];YOU HAVE [0-9]+ DISABLED TEST")
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()

# include/tally as a target whose headers must each compile on their own: part of every build.
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
