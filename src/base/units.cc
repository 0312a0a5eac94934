#include "base/units.h"

#include <charconv>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally {
namespace {

struct Unit {
  std::string_view name;
  double factor;  // in bytes or nanoseconds
};

constexpr double kKibi = 1024;

// Each list goes from the smallest unit to the largest. The format functions use the same lists; of
// two units with one factor they use the first (kB).
constexpr Unit kBinaryUnits[] = {{"B", 1},
                                 {"KiB", kKibi},
                                 {"MiB", kKibi* kKibi},
                                 {"GiB", kKibi* kKibi* kKibi},
                                 {"TiB", kKibi* kKibi* kKibi* kKibi}};
constexpr Unit kDecimalUnits[] = {{"B", 1},    {"kB", 1e3}, {"KB", 1e3},
                                  {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
constexpr Unit kBitUnits[] = {
    {"bit", 1e0 / 8}, {"kbit", 1e3 / 8}, {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8}, {"Tbit", 1e12 / 8}};
constexpr Unit kTimeUnits[] = {{"ns", 1},  {"us", 1e3},   {"ms", 1e6},
                               {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};

struct Quantity {
  double number = 0;
  std::string_view unit;
};

Error not_a_quantity(std::string_view text, std::string_view what) {
  return invalid("'{}' is not {}", text, what);
}

// Splits "12.5 GB/s" into 12.5 and "GB/s".
Result<Quantity> split(std::string_view text, std::string_view what) {
  Quantity quantity;
  const char* end = text.data() + text.size();
  // from_chars() would also accept a minus sign, "inf" and "nan".
  if (text.empty() || text.front() < '0' || text.front() > '9') return not_a_quantity(text, what);
  const auto [rest, status] = std::from_chars(text.data(), end, quantity.number);
  if (status != std::errc() || !std::isfinite(quantity.number)) return not_a_quantity(text, what);
  quantity.unit = std::string_view(rest, static_cast<std::size_t>(end - rest));
  while (!quantity.unit.empty() && quantity.unit.front() == ' ') quantity.unit.remove_prefix(1);
  return quantity;
}

// The factor of the unit `name`; zero if there is none.
double factor_of(std::string_view name, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.factor;
  }
  return 0;
}

double factor_of_size(std::string_view name) {
  const double binary = factor_of(name, kBinaryUnits);
  return binary > 0 ? binary : factor_of(name, kDecimalUnits);
}

std::string format_in(std::span<const Unit> units, double value) {
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (value >= unit.factor && unit.factor > best->factor) best = &unit;
  }
  return fmt::format("{:.4g}{}", value / best->factor, best->name);
}

}  // namespace

Result<std::size_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kWhat = "a size such as 100MiB";
  TALLY_TRY(const Quantity quantity, split(text, kWhat));
  const double factor = quantity.unit.empty() ? 1 : factor_of_size(quantity.unit);
  const double bytes = std::round(quantity.number * factor);
  if (factor == 0 || bytes >= std::ldexp(1.0, 63)) return not_a_quantity(text, kWhat);
  return static_cast<std::size_t>(bytes);
}

Result<double> parse_bytes_per_second(std::string_view text) {
  constexpr std::string_view kWhat = "a bandwidth such as 12.5GB/s";
  TALLY_TRY(const Quantity quantity, split(text, kWhat));
  std::string_view unit = quantity.unit;
  if (!unit.ends_with("/s")) return not_a_quantity(text, kWhat);
  unit.remove_suffix(2);
  const double bits = factor_of(unit, kBitUnits);
  const double rate = quantity.number * (bits > 0 ? bits : factor_of_size(unit));
  if (!(rate > 0) || !std::isfinite(rate)) return not_a_quantity(text, kWhat);
  return rate;
}

Result<Duration> parse_duration(std::string_view text) {
  constexpr std::string_view kWhat = "a time such as 5us";
  TALLY_TRY(const Quantity quantity, split(text, kWhat));
  if (quantity.number == 0 && quantity.unit.empty()) return Duration::zero();
  const double factor = factor_of(quantity.unit, kTimeUnits);
  const double nanoseconds = std::round(quantity.number * factor);
  if (factor == 0 || nanoseconds >= std::ldexp(1.0, 63)) return not_a_quantity(text, kWhat);
  return Duration(static_cast<Duration::rep>(nanoseconds));
}

std::string format_bytes(std::size_t bytes) {
  return format_in(kBinaryUnits, static_cast<double>(bytes));
}

std::string format_bytes_per_second(double rate) { return format_in(kDecimalUnits, rate) + "/s"; }

std::string format_duration(Duration duration) {
  const auto nanoseconds = static_cast<double>(duration.count());
  // Minutes and hours are only parsed: "90.5s" is clearer than "1.508min".
  const std::string text = format_in(std::span(kTimeUnits).first(4), std::abs(nanoseconds));
  return nanoseconds < 0 ? "-" + text : text;
}

}  // namespace tally
