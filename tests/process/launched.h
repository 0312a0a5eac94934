#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "process/child.h"
#include "process/crew.h"
#include "process/folder.h"

namespace tally::process {

// `tally run` with a mark in its environment, by which the test finds all processes of the job. No
// rank is lost because it is silent, unless the test gives --lost-after.
class Launched final {
 public:
  using Variables = std::map<std::string, std::string>;

  // `words` follow "tally run".
  explicit Launched(const std::vector<std::string>& words, const Variables& variables = {});
  // Kills the launcher. Fails the test if a process of the job survives it.
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  Child& tally() { return tally_; }
  // Processes with the mark, other than the launcher.
  std::vector<pid_t> started() const;
  // The first of them that has this rank; 0 if there is none.
  pid_t rank(Rank rank) const;
  // Waits until the command lines of `count` of them contain `text`.
  bool await(const std::string& text, std::size_t count) const;
  // Waits until all ranks are stopped, and the launcher after them.
  bool await_stop() const;
  // Whether all of them have ended within `wait`.
  testing::AssertionResult nobody_left(milliseconds wait = kPatience) const;

 private:
  const std::string mark_;
  Child tally_;
};

// A remote shell whose hosts are all this machine: it runs the command in another session.
std::string pretending_shell(const Folder& folder);

}  // namespace tally::process
