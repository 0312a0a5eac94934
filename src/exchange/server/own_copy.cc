#include "exchange/server/own_copy.h"

#include <utility>

#include "optimizer/update_rule.h"

namespace tally::exchange {

OwnCopy::OwnCopy(const Options& options) : options_(options) {
  if (!options.keeps_state) return;
  const auto first = static_cast<float>(optimizer::initial_state(options.optimizer));
  state_.assign(static_cast<std::size_t>(optimizer::state_arrays(options.optimizer)),
                std::vector<float>(options.count, first));
}

std::uint32_t OwnCopy::parts() const {
  return static_cast<std::uint32_t>((options_.count + options_.part_elements - 1) /
                                    options_.part_elements);
}

void OwnCopy::apply(std::uint32_t part, std::span<float> values, std::span<float> average,
                    std::uint64_t version, double rate) {
  optimizer::Segment<float> segment{.parameters = values, .gradient = average, .state = {}};
  for (std::size_t k = 0; k < state_.size(); ++k) segment.state[k] = state(k, part);
  optimizer::update(options_.optimizer, {.step = version + 1, .rate = rate}, segment);
}

Result<void> OwnCopy::read_state(ServerClient& client, std::uint32_t first, std::uint32_t count) {
  if (count == 0) return {};
  const std::size_t begin = first * options_.part_elements;
  const std::size_t end =
      std::min(options_.count, (std::size_t{first} + count) * options_.part_elements);
  Read read{.first = first, .count = count, .state = {}};
  for (std::size_t k = 0; k < state_.size(); ++k) {
    std::vector<float>& array = read.state.emplace_back(end - begin);
    TALLY_TRY(client.read_state({.table = options_.table, .first = first, .count = count},
                                static_cast<int>(k), std::as_writable_bytes(std::span(array)),
                                kTableLimit));
  }
  read_.push_back(std::move(read));
  return {};
}

std::vector<std::uint32_t> OwnCopy::adopt() {
  std::vector<std::uint32_t> parts;
  for (const Read& read : std::exchange(read_, {})) {
    for (std::size_t k = 0; k < state_.size(); ++k)
      std::copy(read.state[k].begin(), read.state[k].end(),
                state_[k].data() + read.first * options_.part_elements);
    for (std::uint32_t i = 0; i < read.count; ++i) parts.push_back(read.first + i);
  }
  return parts;
}

}  // namespace tally::exchange
