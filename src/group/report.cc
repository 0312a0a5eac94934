#include "group/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tally::group {

TimePoint Report::since() const {
  if (joining) return *joining;
  if (current) return current->record.started;
  return last ? last->record.ended : joined;
}

std::string ranks_text(const std::vector<Rank>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

std::string seconds_text(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds >= 120) {
    const auto whole = static_cast<std::int64_t>(seconds);
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  if (seconds < 0.0995) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

}  // namespace tally::group
