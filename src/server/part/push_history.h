#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/protocol/message.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

// The fate of a worker's pushes to one part, by sequence, so that each push counts once, however
// often it is sent. Sequences of a worker rise, and a push is applied or dropped after all earlier
// ones, except held ones. A value.
class PushHistory {
 public:
  // Limits of what is remembered; older dropped pushes count as applied.
  static constexpr std::size_t kMaxHeld = 256;
  static constexpr std::size_t kMaxDropped = 256;

  enum class State : std::uint8_t { kNew, kHeld, kApplied, kDropped };
  State state(std::uint64_t sequence) const {
    if (sequence > last_) return State::kNew;
    if (has_number(held_, sequence)) return State::kHeld;
    if (has_number(dropped_, sequence)) return State::kDropped;
    return State::kApplied;
  }

  void apply(std::uint64_t sequence) {
    std::erase(held_, sequence);
    last_ = std::max(last_, sequence);
  }

  void drop(std::uint64_t sequence) {
    apply(sequence);
    if (has_number(dropped_, sequence)) return;
    if (dropped_.size() == kMaxDropped) dropped_.erase(dropped_.begin());
    dropped_.push_back(sequence);
  }

  // The push waits for its round. False, with nothing changed, if kMaxHeld wait already.
  bool hold(std::uint64_t sequence) {
    if (has_number(held_, sequence)) return true;
    if (held_.size() == kMaxHeld) return false;
    held_.push_back(sequence);
    last_ = std::max(last_, sequence);
    return true;
  }

  std::uint64_t last() const { return last_; }
  std::span<const std::uint64_t> held() const { return held_; }
  std::span<const std::uint64_t> dropped() const { return dropped_; }
  // Restores the history of another server.
  static PushHistory restored(std::uint64_t last, std::vector<std::uint64_t> held,
                              std::vector<std::uint64_t> dropped) {
    PushHistory history;
    history.last_ = last;
    history.held_ = std::move(held);
    history.dropped_ = std::move(dropped);
    return history;
  }

 private:
  static bool has_number(const std::vector<std::uint64_t>& numbers, std::uint64_t number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  }

  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> held_;
  std::vector<std::uint64_t> dropped_;
};

// How the last round of a measured table was applied.
using Finish = Client::FinishOptions;

// Why a round of a measured table could not be applied.
struct RoundFailure {
  std::uint64_t version = 0;  // of the round
  Error why;
};

// The state of a part beside its values. With both, another server continues where this one
// ended. A value.
struct PartMetadata {
  std::vector<std::byte> round;  // policy::Round::encode()
  std::uint64_t dropped = 0;     // pushes that came too late, of all workers
  std::map<NodeId, PushHistory> workers = {};
  std::optional<Finish> finished = {};       // measured tables: the last round
  std::optional<RoundFailure> failure = {};  // measured tables: the current round
};

std::vector<std::byte> encode(const PartMetadata& metadata);
// kCorrupt for bytes that encode() does not write within the limits of PushHistory and View. Does
// not check `round`.
Result<PartMetadata> decode_metadata(std::span<const std::byte> bytes);

}  // namespace tally::server
