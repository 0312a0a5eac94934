#pragma once
#include <string_view>

namespace tally {

// Each writes one line with time and level to standard error.
void log_info(std::string_view text);
void log_warning(std::string_view text);
void log_error(std::string_view text);

}  // namespace tally
