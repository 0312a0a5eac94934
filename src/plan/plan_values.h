#pragma once
#include <string>
#include <string_view>

#include "plan/plan.h"
#include "tally/error.h"

namespace tally::plan {

// The numbers and settings of a word: the "3,rate=full" of update=ssp:3,rate=full. One table has
// the settings of every word.

// Reads `text` (everything behind the colon; empty if there is none) into the plan's fields of
// `word`. `answer` is the whole answer, "update=ssp:3", for messages. kInvalid for a setting that
// the word does not take or a number out of range.
Result<void> read_values(std::string_view answer, std::string_view word, std::string_view text,
                         Plan& plan);

// ":3,rate=full", or "" if all settings have their defaults.
std::string values_text(std::string_view word, const Plan& plan);

// kInvalid if a number of `word` is out of its range.
Result<void> check_values(std::string_view word, const Plan& plan);

// Copies the fields of `word` from one plan to the other.
void copy_values(std::string_view word, const Plan& from, Plan& to);

}  // namespace tally::plan
