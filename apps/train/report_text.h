#pragma once
#include <string>
#include <string_view>

#include "tally/deadline.h"

namespace tally::app {

// Texts and numbers as the report shows them. Pure.

// The characters that mean something in HTML, in text and in attributes, as references. Control
// characters and bytes that are no UTF-8 become U+FFFD, so that the page is well-formed whatever a
// path or a host was called.
std::string escape_html(std::string_view text);

// Four digits that count: "0.3245", "12.35", "1.2e-07", "NaN", "infinity".
std::string number_text(double value);

// In thousands: "1 234 567", with narrow spaces; "12.3 M" from ten million on.
std::string count_text(double count);

// "850 ms", "12.3 s", "4 min 5 s", "2 h 7 min".
std::string time_text(Duration time);

// 0.8934 is "89.34 %".
std::string percent_text(double share);

}  // namespace tally::app
