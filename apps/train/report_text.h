#pragma once
#include <string>
#include <string_view>

#include "tally/deadline.h"

namespace tally::app {

// Formats texts and numbers for the report. Pure.

// Escapes the special characters of HTML, for text and attributes. Control characters and invalid
// UTF-8 become U+FFFD, so that the page is well-formed for any path or host name.
std::string escape_html(std::string_view text);

// Four significant digits: "0.3245", "12.35", "1.2e-07", "NaN", "infinity".
std::string number_text(double value);

// Grouped by thousands with narrow spaces: "1 234 567"; "12.3 M" from ten million on.
std::string count_text(double count);

// "850 ms", "12.3 s", "4 min 5 s", "2 h 7 min".
std::string time_text(Duration time);

// 0.8934 is "89.34 %".
std::string percent_text(double share);

}  // namespace tally::app
