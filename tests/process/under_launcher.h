#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "process/child.h"
#include "process/crew.h"

namespace tally::process {

// The path of the program; empty if it is not installed.
std::string program_path(const std::string& name);

// Skips the test if `program` is missing, and names the Debian package that has it.
#define TALLY_NEED_PROGRAM(program, package) \
  if (tally::process::program_path(program).empty()) GTEST_SKIP() << "install " package

// Adds options of sanitizers to `variables`, so that these ignore libpmix or an MPI inside the
// ranks: such libraries leak a few bytes at their end, and synchronise their threads by means that
// a sanitizer does not see.
std::map<std::string, std::string> with_foreign_library(
    std::map<std::string, std::string> variables = {});

// examples/05_hello_job, started by a launcher. The destructor waits for the launcher, so that it
// can end its ranks.
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

  // Whether it exits with 0, each of `size` ranks has printed its rank and `launcher`, and rank 0
  // has printed the sum over all ranks.
  testing::AssertionResult adds_up(int size, const std::string& launcher);

 private:
  std::unique_ptr<Child> child_;
};

}  // namespace tally::process
