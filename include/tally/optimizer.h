#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally {

// The update rule. Momentum and Nesterov are kSgd with `momentum` above 0.
enum class OptimizerKind : std::uint8_t { kSgd, kAdagrad, kAdam, kAdamW, kLamb, kLars, kFtrl };

// An optimizer with all its settings. The functions below create one with the usual defaults of its
// kind. Settings that a kind does not use keep the defaults of this struct. docs/optimizers.md has
// the formulas.
struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kSgd;
  double rate = 0.1;
  double momentum = 0;   // sgd, lars
  double dampening = 0;  // sgd
  bool nesterov = false;
  double beta1 = 0.9;  // adam, adamw, lamb
  double beta2 = 0.999;
  double epsilon = 1e-8;           // all but sgd and ftrl
  double weight_decay = 0;         // all but ftrl
  double rate_decay = 0;           // adagrad
  double initial_accumulator = 0;  // adagrad
  double trust = 0.001;            // lars
  double ratio_min = 0;            // lamb
  double ratio_max = 10;
  // lamb, lars: whether the norms of a parameter scale its steps. False for biases and the weights
  // of normalization layers, whose norms say nothing about their gradients.
  bool adapts = true;
  double beta = 1;  // ftrl
  double l1 = 0;
  double l2 = 0;
  // adam, adamw; 0: never. From the update with this number on (counted from 0), the optimizer
  // takes the given gradient as the first moment, because the sender has already averaged it. The
  // second moment and its bias correction stay unchanged.
  std::uint64_t freeze_after = 0;

  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

struct SgdOptions {
  double rate = 0.1;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
struct AdagradOptions {
  double rate = 0.01;
  double rate_decay = 0;
  double weight_decay = 0;
  double initial_accumulator = 0;
  double epsilon = 1e-10;
};
struct AdamOptions {
  double rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};
struct AdamWOptions {
  double rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};
struct LambOptions {
  double rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  double ratio_min = 0;
  double ratio_max = 10;
};
struct LarsOptions {
  double rate = 1;
  double momentum = 0.9;
  double weight_decay = 0;
  double trust = 0.001;
  double epsilon = 1e-8;
};

// FTRL-Proximal (McMahan et al. 2013); `rate` is its alpha.
struct FtrlOptions {
  double rate = 0.1;
  double beta = 1;
  double l1 = 0;
  double l2 = 0;
};

OptimizerSpec sgd(const SgdOptions& options = {});
OptimizerSpec adagrad(const AdagradOptions& options = {});
OptimizerSpec adam(const AdamOptions& options = {});
OptimizerSpec adamw(const AdamWOptions& options = {});
OptimizerSpec lamb(const LambOptions& options = {});
OptimizerSpec lars(const LarsOptions& options = {});
OptimizerSpec ftrl(const FtrlOptions& options = {});

// Parses "sgd", "momentum" (0.9), "nesterov" (0.9), "adagrad", "adam", "adamw", "lamb", "lars" or
// "ftrl", optionally followed by a colon and settings: "adamw:beta2=0.95,decay=0.1". The result
// passes check(). Returns kInvalid for any other text; for an unknown word the message suggests the
// nearest known one.
Result<OptimizerSpec> parse_optimizer(std::string_view text);

// The text that parse_optimizer() parses to an equal value; without defaults.
std::string to_string(const OptimizerSpec& spec);

// Returns kInvalid, with the setting and its bounds, if a value is not finite or out of range, if
// two settings exclude each other, or if a setting is set that this kind does not use.
Result<void> check(const OptimizerSpec& spec);

}  // namespace tally
