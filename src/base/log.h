#pragma once
#include <string_view>

namespace tally {

// Lines on standard error with time and level.
void log_info(std::string_view text);
void log_warning(std::string_view text);
void log_error(std::string_view text);

}  // namespace tally
