#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally {

// A choice with settings: "cosine" or "cosine:min=0.01,warmup=100".
struct OptionText {
  struct Option {
    std::string_view key, value;
  };
  std::string_view name;
  std::vector<Option> options;  // in the order of the text; no key twice
};

// The result refers to `text`. kInvalid, with the position, if the text has another form.
Result<OptionText> parse_option_text(std::string_view text);

// A finite decimal number such as "0.1", "-3" or "1e-8"; a whole number from 0, such as "1e4".
// kInvalid, with the text, otherwise.
Result<double> parse_number(std::string_view text);
Result<std::uint64_t> parse_count(std::string_view text);

}  // namespace tally
