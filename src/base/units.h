#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally {

// Quantities as text: a decimal number, which may have a fraction, and a unit; a space may separate
// them. Any other text is kInvalid, with the text in the message.

// Units: B, kB or KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024); none:
// bytes.
Result<std::size_t> parse_bytes(std::string_view text);

// A size as above, or in bit, kbit, Mbit, Gbit, Tbit, followed by "/s". Zero is kInvalid.
Result<double> parse_bytes_per_second(std::string_view text);

// Units: ns, us, ms, s, min, h. Only "0" needs no unit.
Result<Duration> parse_duration(std::string_view text);

// The text in the largest unit that leaves a number of at least 1, with at most four significant
// digits: "100MiB", "12.5GB/s", "5us", "1.344s".
std::string format_bytes(std::size_t bytes);
std::string format_bytes_per_second(double rate);
std::string format_duration(Duration duration);

}  // namespace tally
