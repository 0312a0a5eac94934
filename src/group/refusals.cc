#include "group/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tally::group {
namespace {

constexpr Duration kRefill = std::chrono::seconds(5);

}  // namespace

std::optional<std::string> Refusals::add(const std::string& from, const std::string& why,
                                         TimePoint now) {
  auto kept = tick(now);
  std::string sentence = fmt::format("a connection from {} was refused: {}", from, why);
  if (allowance_ > 0) {
    --allowance_;
    return kept ? *kept + "; " + sentence : sentence;
  }
  ++unsaid_;
  last_ = std::move(sentence);
  return kept;
}

std::optional<std::string> Refusals::tick(TimePoint now) {
  if (now - refilled_ < kRefill) return std::nullopt;
  refilled_ = now;
  allowance_ = std::min(kBurst, allowance_ + 1);
  if (unsaid_ == 0) return std::nullopt;
  --allowance_;
  const int count = std::exchange(unsaid_, 0);
  return count == 1 ? last_ : fmt::format("{} more like it: {}", count, last_);
}

}  // namespace tally::group
