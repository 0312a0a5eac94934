#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::app {

// What --record-gradients asks for.
struct RecordChoice {
  std::string file;
  std::uint64_t every = 0;  // steps; 0: spread over the training
  std::uint64_t steps = 4;  // how many are recorded
};

// Of all that is recorded, which stays in memory until the end.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 30;

// "FILE", "FILE,every=50", "FILE,every=50,steps=8". kInvalid for anything else.
Result<RecordChoice> parse_record_choice(std::string_view text);

// The steps of a training of `total` whose gradients are recorded, rising; the first step is 1.
// kInvalid if there are none.
Result<std::vector<std::uint64_t>> recorded_steps(const RecordChoice& choice, std::uint64_t total);

// kInvalid if so many steps of a model with `parameters` numbers are more than kMaxRecordBytes.
Result<void> check_record_size(std::uint64_t steps, std::uint64_t parameters);

}  // namespace tally::app
