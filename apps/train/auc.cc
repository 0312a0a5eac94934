#include "apps/train/auc.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tally::app {

// Mann and Whitney's U: in ascending order of scores, a group of equal scores with y positives and
// n negatives adds y * (negatives below) and y * n / 2.
std::optional<double> auc(std::span<const double> scores, std::span<const std::uint8_t> labels) {
  if (scores.size() != labels.size()) return std::nullopt;
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); }))
    return std::nullopt;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&scores](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double won = 0;
  double yes = 0;
  double no = 0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double yes_here = 0;
    double no_here = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end)
      (labels[order[end]] != 0 ? yes_here : no_here) += 1;
    won += yes_here * (no + no_here / 2);
    yes += yes_here;
    no += no_here;
  }
  if (yes == 0 || no == 0) return std::nullopt;
  return won / (yes * no);
}

}  // namespace tally::app
