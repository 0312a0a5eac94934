#pragma once
#include <string>
#include <string_view>

#include "plan/plan.h"
#include "tally/error.h"

namespace tally::plan {

// The numbers and settings behind a word: the "3,rate=full" of update=ssp:3,rate=full. Which word
// takes which is one table.

// Reads `text` (all that is behind the colon; empty if there is none) into the plan's fields of
// `word`. `answer` is the whole answer, "update=ssp:3", for messages. kInvalid for what the word
// does not take, with what it does; ranges are check_values()'s.
Result<void> read_values(std::string_view answer, std::string_view word, std::string_view text,
                         Plan& plan);

// ":3,rate=full", or nothing where all have their defaults.
std::string values_text(std::string_view word, const Plan& plan);

// kInvalid if a number of `word` is out of its range.
Result<void> check_values(std::string_view word, const Plan& plan);

// Copies the fields of `word` from one plan to the other.
void copy_values(std::string_view word, const Plan& from, Plan& to);

}  // namespace tally::plan
