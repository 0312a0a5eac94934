#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace tally::app {

// The area under the ROC curve: the share of pairs of a positive (label 1) and a negative (label 0)
// sample in which the positive one has the higher score; equal scores count half. Exact, by
// sorting. Nothing unless both labels occur and all scores are numbers. As many labels as scores.
std::optional<double> auc(std::span<const double> scores, std::span<const std::uint8_t> labels);

}  // namespace tally::app
