#pragma once
#include <functional>
#include <string>

#include "tally/error.h"

namespace tally::collective {

// Where variables of the environment come from; nullptr: not set.
using Variables = std::function<const char*(const char*)>;

Error invalid(std::string message);

// The variable as a number in [lowest, highest]; `fallback` if it is not set. kInvalid names it.
Result<int> number(const Variables& variable, const char* name, int lowest, int highest,
                   int fallback);

// The variable, or an empty text.
std::string text_of(const Variables& variable, const char* name);

}  // namespace tally::collective
