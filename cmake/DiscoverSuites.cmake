# Run after a test program is linked: writes OUTPUT, which registers one ctest entry for each test
# suite of PROGRAM, named PREFIX.SUITE. A suite runs in one process, so that its tests share what
# SetUpTestSuite started; suites are isolated from each other and run in parallel.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed
  RESULT_VARIABLE status TIMEOUT 60)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests ended with ${status}")
endif()
# A suite is a line without indentation that ends in a dot, perhaps followed by a comment.
string(REGEX MATCHALL "(^|\n)[^ \n]+\\.( +#[^\n]*)?" suites "${listed}")
set(script "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "^\n|\\.( +#.*)?$" "" suite "${suite}")
  if(NOT suite MATCHES "DISABLED_")
    string(APPEND script "add_test([==[${PREFIX}.${suite}]==] [==[${PROGRAM}]==] "
      "[==[--gtest_filter=${suite}.*]==])\n"
      "set_tests_properties([==[${PREFIX}.${suite}]==] PROPERTIES LABELS [==[${LABEL}]==] "
      "TIMEOUT ${TIMEOUT} WORKING_DIRECTORY [==[${WORKING_DIRECTORY}]==])\n")
  endif()
endforeach()
file(WRITE ${OUTPUT} "${script}")
