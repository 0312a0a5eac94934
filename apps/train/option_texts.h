#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"
#include "tally/optimizer.h"

namespace tally::app {

// The place of the parameter servers, from --servers.
struct ServerChoice {
  enum class Kind {
    kNone,       // not given
    kProcesses,  // `count` processes, started with the workers
    kColocated,  // inside the first `count` workers
    kElsewhere,  // running servers with a directory at `address`
  };
  Kind kind = Kind::kNone;
  int count = 0;
  std::string address;  // HOST:PORT
  friend bool operator==(const ServerChoice&, const ServerChoice&) = default;
};

// Parses "2", "2,colocated", "HOST:PORT" or "[V6]:PORT"; "" is kNone. kInvalid for any other text.
Result<ServerChoice> parse_servers(std::string_view text);

// The optimizer of a recipe, as text, and its learning rate.
struct UsualOptimizer {
  std::string text;
  double rate = 0.1;
};

// Parses --optimizer and adds the learning rate: `rate`, which is --rate, or that in the text, or
// that of the recipe for the recipe's optimizer, or the default of another optimizer. kInvalid for
// a wrong text, and for two different rates.
Result<OptimizerSpec> choose_optimizer(const std::string& text, std::optional<double> rate,
                                       const UsualOptimizer& usual);

// "adam" of "adam:beta2=0.99".
std::string_view optimizer_name(std::string_view text);

// As to_string(), but always with the learning rate: "adam:rate=0.001".
std::string with_rate(const OptimizerSpec& spec);

// The parsed option --record-gradients.
struct RecordChoice {
  std::string file;
  std::uint64_t every = 0;  // steps; 0: spread over the training
  std::uint64_t steps = 4;  // number of recorded steps
};

// Limit of all recorded gradients, which stay in memory until the end.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 30;

// Parses "FILE", "FILE,every=50", "FILE,every=50,steps=8". kInvalid for any other text.
Result<RecordChoice> parse_record_choice(std::string_view text);

// Returns the recorded steps of a training of `total` steps, ascending; the first step is 1.
// kInvalid if there are none.
Result<std::vector<std::uint64_t>> recorded_steps(const RecordChoice& choice, std::uint64_t total);

// kInvalid if the gradients of `steps` steps of a model with `parameters` parameters exceed
// kMaxRecordBytes.
Result<void> check_record_size(std::uint64_t steps, std::uint64_t parameters);

}  // namespace tally::app
