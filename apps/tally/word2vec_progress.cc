#include "apps/tally/word2vec_progress.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace tally::app {
namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e9));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

std::string short_number(double number) {
  if (number < 1000) return fmt::format("{:.0f}", number);
  const double scaled = number < 999.5e3   ? number / 1e3
                        : number < 999.5e6 ? number / 1e6
                                           : number / 1e9;
  const char unit = number < 999.5e3 ? 'k' : number < 999.5e6 ? 'M' : 'G';
  return fmt::format("{:.{}f}{}", scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0, unit);
}

std::string word2vec_progress_line(const word2vec::Standing& standing, std::uint64_t epochs,
                                   int columns) {
  const double share =
      standing.total > 0 ? static_cast<double>(standing.words) / static_cast<double>(standing.total)
                         : 1;
  const auto epoch = std::min(
      epochs, 1 + static_cast<std::uint64_t>(std::floor(share * static_cast<double>(epochs))));
  std::vector<std::string> parts = {
      fmt::format("epoch {}/{}", epoch, epochs), fmt::format("{:.0f} %", 100 * share),
      short_number(standing.words_per_s) + " words/s", fmt::format("loss {:.3f}", standing.loss),
      fmt::format("rate {:.4f}", standing.rate)};
  if (standing.words_per_s > 0 && standing.total >= standing.words)
    parts.push_back("left " + clock_text(static_cast<double>(standing.total - standing.words) /
                                         standing.words_per_s));
  std::string line;
  for (const std::string& part : parts) {
    const std::string longer = line.empty() ? part : line + "  " + part;
    if (columns > 0 && static_cast<int>(longer.size()) >= columns) break;
    line = longer;
  }
  return line;
}

}  // namespace tally::app
