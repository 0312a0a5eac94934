#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace tally::app {

// The area under the ROC curve: the share of all pairs of a yes (label 1) and a no (label 0) in
// which the yes has the higher score, equal scores counted half. Exact: over all of them, by
// sorting. Nothing unless there are both, and all scores are numbers. As many labels as scores.
std::optional<double> auc(std::span<const double> scores, std::span<const std::uint8_t> labels);

}  // namespace tally::app
