#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/server/server_client.h"
#include "tally/optimizer.h"

namespace tally::exchange {

// A worker's own copy of a table that is updated in step: applies the averages from the servers,
// bit for bit as servers do, and keeps the optimizer state. Threads: calls must not overlap.
class OwnCopy final {
 public:
  struct Options {
    server::TableId table = 0;
    OptimizerSpec optimizer;
    std::size_t count = 0;  // elements
    std::size_t part_elements = 0;
    bool keeps_state = true;  // false: apply() is not used
  };
  explicit OwnCopy(const Options& options);

  std::uint32_t parts() const;
  // A part of an array with the table's elements.
  template <typename T>
  std::span<T> part_of(std::span<T> all, std::uint32_t part) const {
    const std::size_t begin = part * options_.part_elements;
    return all.subspan(begin, std::min(options_.part_elements, all.size() - begin));
  }
  std::size_t size_of_part(std::uint32_t part) const {
    return std::min(options_.part_elements, options_.count - part * options_.part_elements);
  }
  // The part's range of one optimizer array.
  std::span<float> state(std::size_t array, std::uint32_t part) {
    return part_of(std::span(state_[array]), part);
  }

  // Updates the values of a part and its state from `version` to the next. Overwrites the average.
  void apply(std::uint32_t part, std::span<float> values, std::span<float> average,
             std::uint64_t version, double rate);

  // Reads the servers' state of parts beside the own state.
  Result<void> read_state(ServerClient& client, std::uint32_t first, std::uint32_t count);
  // Replaces the own state by what was read. Returns the parts.
  std::vector<std::uint32_t> adopt();
  void discard() { read_.clear(); }

 private:
  struct Read {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::vector<std::vector<float>> state;  // by array
  };

  const Options options_;
  std::vector<std::vector<float>> state_;  // by array
  std::vector<Read> read_;
};

}  // namespace tally::exchange
