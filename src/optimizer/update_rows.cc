#include "optimizer/update_rows.h"

#include <algorithm>

#include "base/check.h"
#include "kernel/update/update.h"

namespace tally::optimizer {
namespace {

// Rows of at least this width are updated one by one: a call costs less than filling in rates and
// roots.
constexpr std::size_t kWideRow = 32;
constexpr std::size_t kKnownSteps = std::size_t{1} << 16;

}  // namespace

RowUpdate::RowUpdate(const OptimizerSpec& spec, std::size_t width)
    : spec_(spec), width_(width), method_(method_for(spec)) {
  TALLY_CHECK(!is_layerwise(spec) && width >= 1);
}

RowUpdate::Method RowUpdate::method_for(const OptimizerSpec& spec) {
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return spec.momentum == 0 || spec.dampening == 0 ? Method::kTogether : Method::kEach;
    case OptimizerKind::kAdagrad:
      return spec.rate_decay == 0 ? Method::kTogether : Method::kEach;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return spec.freeze_after == 0 ? Method::kAdam : Method::kEach;
    case OptimizerKind::kFtrl:
      return Method::kTogether;
    case OptimizerKind::kLamb:
    case OptimizerKind::kLars:
      break;
  }
  return Method::kEach;
}

Segment<float> RowUpdate::row(const Segment<float>& segment, std::size_t index) const {
  const auto part = [&](std::span<float> whole) {
    return whole.empty() ? whole : whole.subspan(index * width_, width_);
  };
  return {part(segment.parameters),
          part(segment.gradient),
          {part(segment.state[0]), part(segment.state[1])}};
}

void RowUpdate::begin_rows(std::span<const std::uint32_t> steps,
                           const Segment<float>& segment) const {
  if (spec_.kind == OptimizerKind::kAdagrad || state_arrays(spec_) == 0) return;
  for (std::size_t r = 0; r < steps.size(); ++r) {
    if (steps[r] == 1) begin_state(spec_, row(segment, r));
  }
}

void RowUpdate::run(double rate, std::span<const std::uint32_t> steps,
                    const Segment<float>& segment) {
  TALLY_CHECK(segment.parameters.size() == steps.size() * width_);
  switch (method_) {
    case Method::kTogether:
      begin_rows(steps, segment);
      return update(spec_, {.step = 2, .rate = rate}, segment);
    case Method::kAdam:
      return run_adam(rate, steps, segment);
    case Method::kEach:
      for (std::size_t r = 0; r < steps.size(); ++r) {
        update(spec_, {.step = steps[r], .rate = rate}, row(segment, r));
      }
  }
}

void RowUpdate::run_adam(double rate, std::span<const std::uint32_t> steps,
                         const Segment<float>& segment) {
  const auto& loops = kernel::update_kernels<float>();
  if (width_ >= kWideRow || steps.size() == 1) {
    for (std::size_t r = 0; r < steps.size(); ++r) {
      const Segment<float> own = row(segment, r);
      loops.adam(adam_factors<float>(spec_, rate, corrections(steps[r])), own.parameters.data(),
                 own.gradient.data(), own.state[0].data(), own.state[1].data(), width_);
    }
    return;
  }
  const std::size_t count = steps.size() * width_;
  rates_.resize(std::max(rates_.size(), count));
  roots_.resize(std::max(roots_.size(), count));
  for (std::size_t r = 0; r < steps.size(); ++r) {
    const Corrections at = corrections(steps[r]);
    std::fill_n(rates_.data() + r * width_, width_, static_cast<float>(rate / at.first));
    std::fill_n(roots_.data() + r * width_, width_, static_cast<float>(at.root));
  }
  loops.adam_each(adam_factors<float>(spec_, rate, {}), rates_.data(), roots_.data(),
                  segment.parameters.data(), segment.gradient.data(), segment.state[0].data(),
                  segment.state[1].data(), count);
}

Corrections RowUpdate::corrections(std::uint32_t step) {
  if (step > kKnownSteps) return corrections_at(spec_, step);
  while (known_.size() < step) known_.push_back(corrections_at(spec_, known_.size() + 1));
  return known_[step - 1];
}

}  // namespace tally::optimizer
