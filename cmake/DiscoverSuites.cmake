# The build runs this script after it has linked a test program. The script writes OUTPUT, which
# registers one ctest entry, PREFIX.SUITE, for each test suite of PROGRAM. A suite runs in one
# process, so that its tests share the fixtures of SetUpTestSuite; ctest runs suites in parallel.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed
  RESULT_VARIABLE status TIMEOUT 60)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests ended with ${status}")
endif()
# A suite is a line without indentation that ends in a dot, perhaps followed by a comment.
string(REGEX MATCHALL "(^|\n)[^ \n]+\\.( +#[^\n]*)?" suites "${listed}")
# The longest suites start first, so that no processor idles at the end: those with libtorch, then
# simulations, then those that wait for real processes.
set(cost 0)
if(LABEL STREQUAL "torch")
  set(cost 100)
elseif(LABEL STREQUAL "sim")
  set(cost 75)
elseif(LABEL STREQUAL "process")
  set(cost 50)
endif()
set(script "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "^\n|\\.( +#.*)?$" "" suite "${suite}")
  if(NOT suite MATCHES "DISABLED_")
    string(APPEND script "add_test([==[${PREFIX}.${suite}]==] [==[${PROGRAM}]==] "
      "[==[--gtest_filter=${suite}.*]==])\n"
      "set_tests_properties([==[${PREFIX}.${suite}]==] PROPERTIES LABELS [==[${LABEL}]==] "
      "TIMEOUT ${TIMEOUT} COST ${cost} WORKING_DIRECTORY [==[${WORKING_DIRECTORY}]==])\n")
  endif()
endforeach()
file(WRITE ${OUTPUT} "${script}")
