#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally {

// How parameters follow their gradient. Momentum and Nesterov are kSgd with `momentum` above 0.
enum class OptimizerKind : std::uint8_t { kSgd, kAdagrad, kAdam, kAdamW, kLamb, kLars, kFtrl };

// An optimizer with all its settings, as a value. The functions below make one with the usual
// defaults of its kind; settings that a kind does not use keep the values they have here.
// docs/optimizers.md has the formulas.
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
  double beta = 1;  // ftrl
  double l1 = 0;
  double l2 = 0;
  // adam, adamw; 0: never. From the update with this number on, counted from 0, what is given for
  // the gradient is the first moment itself (others have averaged it already), and the second stays
  // as it is, with its bias correction.
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

// "sgd", "momentum" (0.9), "nesterov" (0.9), "adagrad", "adam", "adamw", "lamb", "lars" or "ftrl",
// and after a colon what differs from the defaults: "adamw:beta2=0.95,decay=0.1". The result passes
// check(). kInvalid for anything else; an unknown word is answered with the nearest known one.
Result<OptimizerSpec> parse_optimizer(std::string_view text);

// The text that parse_optimizer() turns back into the same value; defaults are left out.
std::string to_string(const OptimizerSpec& spec);

// kInvalid, with the setting and its bounds, if this cannot train anything: a value that is not
// finite or out of range, or a setting that this kind would not look at.
Result<void> check(const OptimizerSpec& spec);

}  // namespace tally
