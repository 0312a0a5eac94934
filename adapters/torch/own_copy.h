#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tally/error.h"
#include "tally/optimizer.h"
#include "tally/server.h"

namespace tally::adapter {

// A worker's own copy of a table that is updated in step: values and the optimizer's state, which
// it moves by the averages that it is told, bit for bit as servers move theirs. Threads: calls must
// not overlap.
class OwnCopy final {
 public:
  struct Options {
    server::TableId table = 0;
    OptimizerSpec optimizer;
    std::size_t part_elements = 0;
    std::span<float> values;  // of the whole table; somebody else's memory
    bool keeps_state = true;  // else it is only read into, and never moves
  };
  explicit OwnCopy(const Options& options);

  std::size_t parts() const;
  std::span<float> values(std::uint32_t part) const { return part_of(options_.values, part); }
  // One of the optimizer's arrays.
  std::span<float> state(int array, std::uint32_t part);

  // One update of a part from `version` on. The average is used up.
  void apply(std::uint32_t part, std::span<float> average, std::uint64_t version, double rate);
  // State as servers have it, after values have come from there.
  Result<void> read_state(server::Client& client, std::uint32_t first, std::uint32_t count);

 private:
  template <typename T>
  std::span<T> part_of(std::span<T> all, std::uint32_t part) const {
    const std::size_t begin = part * options_.part_elements;
    return all.subspan(begin, std::min(options_.part_elements, all.size() - begin));
  }

  const Options options_;
  std::vector<std::vector<float>> state_;
};

}  // namespace tally::adapter
