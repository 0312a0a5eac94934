#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "server/protocol/message.h"
#include "tally/error.h"

namespace tally::server {

// Which of a worker's pushes to one part have had their effect, by sequence: what makes each count
// once, however often it is sent. A worker's sequences rise, and a push is settled after all
// earlier ones but for those that are held. A value.
class PushHistory {
 public:
  // So many held and dropped pushes are remembered. Older drops are then told as applied.
  static constexpr std::size_t kMaxHeld = 256;
  static constexpr std::size_t kMaxDropped = 256;

  enum class State : std::uint8_t { kNew, kHeld, kApplied, kDropped };
  State state(std::uint64_t sequence) const;

  void apply(std::uint64_t sequence);
  void drop(std::uint64_t sequence);
  // It waits for its round. False, with nothing changed, if kMaxHeld are waiting.
  bool hold(std::uint64_t sequence);

  std::uint64_t last() const { return last_; }
  std::span<const std::uint64_t> held() const { return held_; }
  std::span<const std::uint64_t> dropped() const { return dropped_; }
  // As they were on another server.
  static PushHistory restored(std::uint64_t last, std::vector<std::uint64_t> held,
                              std::vector<std::uint64_t> dropped);

 private:
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> held_;
  std::vector<std::uint64_t> dropped_;
};

// What a part is beside its numbers: with both, another server goes on where this one ended. A
// value.
struct PartMetadata {
  std::vector<std::byte> round;  // policy::Round::encode()
  std::uint64_t dropped = 0;     // pushes that came too late, of all workers
  std::map<NodeId, PushHistory> workers;
};

std::vector<std::byte> encode(const PartMetadata& metadata);
// kCorrupt for anything that encode() would not make of a metadata within the limits of PushHistory and
// View. What is in `round` is not looked at.
Result<PartMetadata> decode_metadata(std::span<const std::byte> bytes);

}  // namespace tally::server
