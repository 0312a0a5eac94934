#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally::plan {

// Where gradients meet.
enum class Home : std::uint8_t { kGroup, kServer };
// When an update may happen.
enum class Update : std::uint8_t {
  kBsp,
  kAsp,
  kSsp,
  kBackup,
  kSubset,
  kLocal,
  kEasgd,
  kBmuf,
  kDiloco,
  kSlowmo,
  kGossip,
  kAdpsgd,
  kAverage,
};
// How gradients travel.
enum class Codec : std::uint8_t {
  kNone,
  kFp16,
  kBf16,
  kInt8,
  kFp8,
  kQsgd,
  kTernary,
  kOnebit,
  kSign,
  kTopk,
  kRandk,
  kDgc,
  kPowersgd,
};
// What is done with a gradient that comes late.
enum class Stale : std::uint8_t { kKeep, kDrop, kScale, kCompensate };
// How a server adds gradients that come at the same time.
enum class Conflict : std::uint8_t {
  kLock,        // one after the other
  kAtomic,      // each element by an atomic addition
  kAccumulate,  // gathered first, applied together
};
// How the model is split.
enum class Split : std::uint8_t { kData, kPipeline, kTensor, kShard };
// Which samples a worker sees.
enum class Data : std::uint8_t { kPartition, kReplicate, kStream, kStages };

// How workers train together: one answer to each of six questions. The enums have all answers that
// are known; check() says which are offered.
struct Plan {
  Home home = Home::kGroup;
  Update update = Update::kBsp;
  Codec codec = Codec::kNone;
  Stale stale = Stale::kKeep;
  Split split = Split::kData;
  Data data = Data::kPartition;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// "key=word key=word", in any order, with spaces between; a key that is missing has its default, so
// "" is a plan. The result passes check(). kInvalid for anything else, with the nearest key or word.
Result<Plan> parse_plan(std::string_view text);

// kInvalid if an answer is not offered by this version; the message has the nearest one that is.
Result<void> check(const Plan& plan);

// All keys in the order above: "home=group update=bsp codec=none stale=keep split=data data=partition".
std::string to_string(const Plan& plan);

}  // namespace tally::plan
