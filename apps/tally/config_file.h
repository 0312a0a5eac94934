#pragma once
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::app {

// One option of a file of options.
struct ConfigLine {
  int number = 0;  // of the line; the first is 1
  std::string name;
  std::optional<std::string> value;  // nothing: the line has the name alone
};

// Reads lines "batch=32" or "no-progress"; dashes before the name are allowed. The value is the
// rest of the line, in double or single quotes if it begins or ends with a space. Empty lines and
// lines that begin with # or ; are skipped, and so is the text behind " #". kInvalid, with "LINE: "
// before the message, for a line without a name and for an option that is given twice.
Result<std::vector<ConfigLine>> read_config(std::istream& input);

}  // namespace tally::app
