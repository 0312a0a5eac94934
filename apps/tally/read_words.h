#pragma once
#include <string>

#include "apps/tally/command_line.h"
#include "data/read_options.h"

namespace tally::app {

// The options for data of the user's own, the same words for `tally data check` and `tally train`.
struct ReadWords {
  std::string target;
  bool classes = false;
  bool bytes = false;
  std::string validation;  // a fraction, or a path
  friend bool operator==(const ReadWords&, const ReadWords&) = default;
};

// The options as on the command line, each after a space; " none of --target, ..." if there are
// none.
std::string to_string(const ReadWords& words);

// `words` must outlive the parsing.
void add_read_words(Command& command, ReadWords& words);

// kInvalid, with the option, for a fraction that is not between 0 and 1.
Result<data::ReadOptions> read_options_of(const ReadWords& words);

}  // namespace tally::app
