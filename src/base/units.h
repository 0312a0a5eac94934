#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally {

// Quantities as people write them: a decimal number, which may have a fraction, and a unit. A space
// may stand between them. Everything else is kInvalid, with the text in the message.

// Units: B, kB or KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024); none:
// bytes.
Result<std::size_t> parse_bytes(std::string_view text);

// A size as above or in bit, kbit, Mbit, Gbit, Tbit, followed by "/s". Never zero.
Result<double> parse_bytes_per_second(std::string_view text);

// Units: ns, us, ms, s, min, h. Only "0" may go without.
Result<Duration> parse_duration(std::string_view text);

// Back to text, in the largest unit that leaves a number of at least 1, with at most four digits
// that count: "100MiB", "12.5GB/s", "5us", "1.344s".
std::string format_bytes(std::size_t bytes);
std::string format_bytes_per_second(double rate);
std::string format_duration(Duration duration);

}  // namespace tally
