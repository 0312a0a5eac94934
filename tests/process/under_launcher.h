#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "process/child.h"
#include "process/crew.h"

namespace tally::process {

// Where a program of this name is; empty if it is not installed.
std::string program_path(const std::string& name);

// Skips the test if `program` is missing; says which Debian package has it.
#define TALLY_NEED_PROGRAM(program, package) \
  if (tally::process::program_path(program).empty()) GTEST_SKIP() << "install " package

// `variables`, and with them sanitizers that pass over what libpmix or an MPI inside the ranks do:
// these lose a few bytes when they end, and their threads keep in step by means that a sanitizer
// does not see.
std::map<std::string, std::string> with_foreign_library(
    std::map<std::string, std::string> variables = {});

// examples/05_hello_job, started by a launcher. Its end is waited for, so that the launcher can end
// its ranks.
class HelloJob final {
 public:
  // `command` begins with the name or path of the launcher and ends before the program.
  explicit HelloJob(std::vector<std::string> command,
                    std::map<std::string, std::string> variables = {},
                    std::vector<std::string> program = {TALLY_HELLO_PROGRAM});
  ~HelloJob();
  HelloJob(const HelloJob&) = delete;
  HelloJob& operator=(const HelloJob&) = delete;

  Child& child() { return *child_; }

  // Whether it exits with 0, every rank of `size` has said who it is and that `launcher` started
  // it, and rank 0 has said the sum over all.
  testing::AssertionResult adds_up(int size, const std::string& launcher);

 private:
  std::unique_ptr<Child> child_;
};

}  // namespace tally::process
