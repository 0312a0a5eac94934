#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally {

// A choice with settings as people write it: "cosine", or "cosine:min=0.01,warmup=100".
struct OptionText {
  struct Option {
    std::string_view key, value;
  };
  std::string_view name;
  std::vector<Option> options;  // in the order of the text; no key twice
};

// Parts of `text`, not copied. kInvalid, with the place, if it is not built like that.
Result<OptionText> parse_option_text(std::string_view text);

// A finite decimal number, "0.1", "-3" or "1e-8", and nothing else; a whole number from 0, "1e4"
// too. kInvalid with the text otherwise.
Result<double> parse_number(std::string_view text);
Result<std::uint64_t> parse_count(std::string_view text);

}  // namespace tally
