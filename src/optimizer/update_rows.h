#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/adam_factors.h"
#include "optimizer/update_rule.h"

namespace tally::optimizer {

// Updates many rows of a sparse table at once, each at its own step number: adam's bias correction
// counts the steps of the row ("lazy adam"). The result has the same bits as update() on each row.
// For kinds that are not layerwise. Threads: calls must not overlap.
class RowUpdate final {
 public:
  // The spec has passed check(). Rows have `width` elements.
  RowUpdate(const OptimizerSpec& spec, std::size_t width);

  // Row r, elements [r * width, (r + 1) * width) of the segment, takes its step number steps[r],
  // which counts from 1.
  void run(double rate, std::span<const std::uint32_t> steps, const Segment<float>& segment);

 private:
  enum class Method {
    kTogether,  // all rows in one call: only the first step of a row differs from later ones
    kAdam,
    kEach,  // one call per row
  };
  static Method method_for(const OptimizerSpec& spec);

  Segment<float> row(const Segment<float>& segment, std::size_t index) const;
  void begin_rows(std::span<const std::uint32_t> steps, const Segment<float>& segment) const;
  void run_adam(double rate, std::span<const std::uint32_t> steps, const Segment<float>& segment);
  // Cached, because powers cost more than the update of a short row.
  Corrections corrections(std::uint32_t step);

  const OptimizerSpec spec_;
  const std::size_t width_;
  const Method method_;
  std::vector<Corrections> known_;  // by step - 1
  std::vector<float> rates_, roots_;
};

}  // namespace tally::optimizer
