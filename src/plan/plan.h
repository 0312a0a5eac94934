#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::plan {

// Where gradients are combined.
enum class Home : std::uint8_t { kGroup, kServer };
// When an update may be applied.
enum class Update : std::uint8_t {
  kBsp,
  kAsp,
  kSsp,
  kBackup,
  kSubset,
  kKbatch,
  kKasync,
  kSoftsync,
  kLocal,
  kEasgd,
  kBmuf,
  kDiloco,
  kSlowmo,
  kGossip,
  kAdpsgd,
  kAverage,
};
// The treatment of a stale gradient.
enum class Stale : std::uint8_t { kKeep, kDrop, kScale, kCompensate };
// The share of the learning rate that a gradient gets which is applied without waiting for others.
enum class RateShare : std::uint8_t {
  // share / (1 + staleness * share), to the power optimizer::share_power(); `share` is the
  // gradient's share by samples.
  kDamped,
  kShared,  // share, to the same power
  kFull,    // all of it
};
// How a server adds gradients that arrive at the same time.
enum class Conflict : std::uint8_t {
  kLock,        // one after the other
  kAtomic,      // each element by an atomic addition
  kAccumulate,  // accumulated first, applied together
};
// How the model is split.
enum class Split : std::uint8_t { kData, kPipeline, kTensor, kShard };
// Which samples a worker sees.
enum class Data : std::uint8_t { kPartition, kReplicate, kStream, kStages };

// How workers train together: one answer to each of seven questions, and the numbers that some
// answers take. The enums also reserve answers that this version does not offer; check() rejects
// those. Numbers that the plan's answers do not take have the values below.
struct Plan {
  Home home = Home::kGroup;
  Update update = Update::kBsp;
  CodecSpec codec;
  Stale stale = Stale::kKeep;
  Split split = Split::kData;
  Data data = Data::kPartition;
  Conflict conflict = Conflict::kLock;

  std::uint64_t bound = 0;        // ssp:S, clocks that the fastest worker may be ahead
  std::uint64_t backups = 0;      // backup:B, workers that are not waited for
  std::uint64_t subset = 0;       // subset:K, workers that take part in a step
  std::uint64_t batches = 0;      // kbatch:K, kasync:K, gradients that make up an update
  bool any_version = false;       // kbatch:K,async: a round also takes gradients of older versions
  std::uint64_t softness = 0;     // softsync:n, rounds that N gradients make
  std::uint64_t push_every = 1;   // asp:push=, steps
  std::uint64_t fetch_every = 1;  // asp:fetch=, steps
  RateShare rate = RateShare::kDamped;           // asp, ssp, kasync, softsync: rate=
  bool kept_momentum = false;                    // asp, ssp: momentum=kept
  std::chrono::milliseconds average_every = {};  // average:MS
  std::uint64_t local_steps = 0;                 // local:H
  std::uint64_t drop_above = 0;                  // drop:T, staleness
  double compensation = 0;                       // compensate:L
  bool adaptive = false;                         // compensate:L,adaptive

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Parses "key=word key=word:values", in any order, separated by spaces. A missing key is as in
// `defaults`, so "" is a plan. The plan of a server's table has no home: its defaults are {.home =
// Home::kServer}. The result passes check(). kInvalid for any other text, with the nearest key or
// word.
Result<Plan> parse_plan(std::string_view text, const Plan& defaults = {});

// kInvalid if an answer is not offered by this version, if two answers cannot be combined, or if a
// number is out of range; the message has the nearest offered answer. The number of workers is not
// known here: policy::rules_of() checks against it.
Result<void> check(const Plan& plan);

// Whether workers exchange models instead of gradients: update=average and update=local.
bool averages_models(const Plan& plan);
// kInvalid if the plan exchanges models, for a recipe that cannot; `recipe` is for the message.
Result<void> check_exchanges_gradients(const Plan& plan, std::string_view recipe);

// All keys in the order above: "home=group update=bsp codec=none stale=keep split=data
// data=partition", and "conflict=lock" with home=server. Numbers that differ from their defaults
// follow their word. parse_plan() reads the text back.
std::string to_string(const Plan& plan);
// The plan for people: home, update and codec, and further keys where they are not as in Plan().
// The answers of `given`, the text that parse_plan() read, stay as they are written there:
// "home=group update=bsp codec=topk:0.01".
std::string short_text(const Plan& plan, std::string_view given);
// The text of the key update: "update=ssp:3".
std::string update_text(const Plan& plan);

}  // namespace tally::plan
