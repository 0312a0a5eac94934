#include "apps/tally/algorithm_names.h"

#include <array>

namespace tally::app {
namespace {

constexpr std::array kAlgorithms = {
    Algorithm::kAuto, Algorithm::kDirect,       Algorithm::kRing,    Algorithm::kHalvingDoubling,
    Algorithm::kTree, Algorithm::kHierarchical, Algorithm::kPairwise};

}  // namespace

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  names.reserve(kAlgorithms.size());
  for (const Algorithm algorithm : kAlgorithms) names.emplace_back(to_string(algorithm));
  return names;
}

std::optional<Algorithm> parse_algorithm(const std::string& name) {
  for (const Algorithm algorithm : kAlgorithms) {
    if (name == to_string(algorithm)) return algorithm;
  }
  return std::nullopt;
}

}  // namespace tally::app
