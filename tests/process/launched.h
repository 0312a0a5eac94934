#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "process/child.h"
#include "process/crew.h"

namespace tally::process {

// `tally run` with a mark in its environment, by which everything that it starts can be found.
class Launched final {
 public:
  using Variables = std::map<std::string, std::string>;

  // `words` follow "tally run".
  explicit Launched(const std::vector<std::string>& words, const Variables& variables = {});
  // Whatever the test left running goes with the launcher; a test that leaves something fails.
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  Child& tally() { return tally_; }
  // Processes with the mark, other than the launcher.
  std::vector<pid_t> started() const;
  // Waits until the command lines of those contain `text` so often.
  bool await(const std::string& text, std::size_t count, milliseconds wait = kPatience) const;
  // Whether nobody is left by then.
  testing::AssertionResult nobody_left(milliseconds wait = kPatience) const;

 private:
  const std::string mark_;
  Child tally_;
};

// A shell script in `folder`, as a path.
std::string script(const Folder& folder, const std::string& name, const std::string& text);

// A remote shell whose hosts are all this machine: it runs what it is given, as another session.
std::string pretending_shell(const Folder& folder);

std::string contents_of(const std::string& path);

}  // namespace tally::process
