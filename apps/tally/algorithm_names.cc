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

TransportKind transport_kind(const std::string& text) {
  if (text == "tcp") return TransportKind::kTcp;
  return text == "tls" ? TransportKind::kTls : TransportKind::kShm;
}

}  // namespace tally::app
