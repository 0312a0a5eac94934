#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/server/server_client.h"
#include "tally/optimizer.h"

namespace tally::exchange {

// A worker's own copy of a table that is updated in step: values and optimizer state. It applies
// the averages from the servers, bit for bit as servers do. Threads: calls must not overlap.
class OwnCopy final {
 public:
  struct Options {
    server::TableId table = 0;
    OptimizerSpec optimizer;
    std::size_t part_elements = 0;
    std::span<float> values;  // of the whole table; borrowed
    bool keeps_state = true;  // false: values are only read into, and apply() is not used
  };
  explicit OwnCopy(const Options& options);

  std::size_t parts() const;
  std::span<float> values(std::uint32_t part) const { return part_of(options_.values, part); }
  // The part's range of one optimizer array.
  std::span<float> state(int array, std::uint32_t part);

  // Updates a part from `version` to the next. Overwrites the average.
  void apply(std::uint32_t part, std::span<float> average, std::uint64_t version, double rate);
  // Reads the servers' state, after values were pulled.
  Result<void> read_state(ServerClient& client, std::uint32_t first, std::uint32_t count);

 private:
  template <typename T>
  std::span<T> part_of(std::span<T> all, std::uint32_t part) const {
    const std::size_t begin = part * options_.part_elements;
    return all.subspan(begin, std::min(options_.part_elements, all.size() - begin));
  }

  const Options options_;
  std::vector<std::vector<float>> state_;
};

}  // namespace tally::exchange
