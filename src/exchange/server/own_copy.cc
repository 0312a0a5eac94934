#include "exchange/server/own_copy.h"

#include <algorithm>

#include "optimizer/update_rule.h"

namespace tally::exchange {

OwnCopy::OwnCopy(const Options& options) : options_(options) {
  if (!options.keeps_state) return;
  const auto first = static_cast<float>(optimizer::initial_state(options.optimizer));
  state_.assign(static_cast<std::size_t>(optimizer::state_arrays(options.optimizer)),
                std::vector<float>(options.values.size(), first));
}

std::size_t OwnCopy::parts() const {
  return (options_.values.size() + options_.part_elements - 1) / options_.part_elements;
}

std::span<float> OwnCopy::state(int array, std::uint32_t part) {
  return part_of(std::span(state_[static_cast<std::size_t>(array)]), part);
}

void OwnCopy::apply(std::uint32_t part, std::span<float> average, std::uint64_t version,
                    double rate) {
  optimizer::Segment<float> segment{.parameters = values(part), .gradient = average, .state = {}};
  for (std::size_t k = 0; k < state_.size(); ++k)
    segment.state[k] = state(static_cast<int>(k), part);
  optimizer::update(options_.optimizer, {.step = version + 1, .rate = rate}, segment);
}

Result<void> OwnCopy::read_state(ServerClient& client, std::uint32_t first, std::uint32_t count) {
  if (count == 0) return {};
  const std::size_t begin = first * options_.part_elements;
  const std::size_t end =
      std::min(options_.values.size(), (std::size_t{first} + count) * options_.part_elements);
  for (std::size_t k = 0; k < state_.size(); ++k)
    TALLY_TRY(client.read_state(
        {.table = options_.table, .first = first, .count = count}, static_cast<int>(k),
        std::as_writable_bytes(std::span(state_[k]).subspan(begin, end - begin)), kTableLimit));
  return {};
}

}  // namespace tally::exchange
