#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/adam_factors.h"
#include "optimizer/update_rule.h"

namespace tally::optimizer {

// Steps of many rows at once, each at a step of its own, as rows of sparse tables are: adam's bias
// correction counts the steps of the row ("lazy adam"). The same bits as update() on each row. The
// kinds that are not layerwise. Threads: calls must not overlap.
class RowUpdate final {
 public:
  // The spec has passed check(); rows of `width` elements.
  RowUpdate(const OptimizerSpec& spec, std::size_t width);

  // Row r, which is elements [r * width, (r + 1) * width) of the segment, takes its step number
  // `steps`[r], from 1.
  void run(double rate, std::span<const std::uint32_t> steps, const Segment<float>& segment);

 private:
  enum class Way {
    kTogether,  // no step but the first differs from others
    kAdam,
    kEach,
  };
  static Way way_for(const OptimizerSpec& spec);

  Segment<float> row(const Segment<float>& segment, std::size_t index) const;
  void begin_rows(std::span<const std::uint32_t> steps, const Segment<float>& segment) const;
  void run_adam(double rate, std::span<const std::uint32_t> steps, const Segment<float>& segment);
  // Of a step; remembered, because powers cost more than the rest of a short row.
  Corrections corrections(std::uint32_t step);

  const OptimizerSpec spec_;
  const std::size_t width_;
  const Way way_;
  std::vector<Corrections> known_;  // by step - 1
  std::vector<float> rates_, roots_;
};

}  // namespace tally::optimizer
