#pragma once
#include <cstddef>

#include "exchange/device/device.h"
#include "optimizer/update_rule.h"
#include "tally/optimizer.h"

// An optimizer step in the terms of a device: the loop, and the scalars of a piece.
namespace tally::exchange {

// The loop of a step; of lamb and lars, that which follows the norms.
UpdateLoop loop_of(const OptimizerSpec& spec);

// Sets the scalars for loop_of(), or for lamb's direction. `norms` are read for lamb and lars only.
// `type` is that of the bucket.
struct StepScalars {
  const OptimizerSpec& spec;
  optimizer::StepFacts facts;
  optimizer::Norms norms = {};
  DataType type = DataType::kFloat32;
};
void set_factors(const StepScalars& scalars, DevicePiece& piece);
void set_direction_factors(const StepScalars& scalars, DevicePiece& piece);

}  // namespace tally::exchange
