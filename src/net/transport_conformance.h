#pragma once
// The suite that every Transport must pass. A transport joins it by one line in its test file:
//
//   INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance, testing::Values(TransportFactory{...}),
//                            factory_name);
//
// The tests are in transport_conformance_test.cc.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "net/transport.h"

namespace tally::net {

struct TransportFactory {
  std::string name;
  // Makes `size` connected transports of one generation; the index is the rank. An empty result
  // means that this machine lacks support (such as IPv6), and the test is skipped.
  std::function<std::vector<std::unique_ptr<Transport>>(int size)> make;
  std::size_t frame_bytes = wire::kMaxPayloadBytes;  // payload of its largest frame
  // Ends a transport the way a crash ends a process: without a goodbye.
  std::function<void(std::unique_ptr<Transport>)> kill = [](std::unique_ptr<Transport> transport) {
    transport.reset();
  };
};

inline std::string factory_name(const testing::TestParamInfo<TransportFactory>& info) {
  return info.param.name;
}
inline void PrintTo(const TransportFactory& factory, std::ostream* out) { *out << factory.name; }

// Assembles frames into messages, and keeps them by sender and in order.
class Inbox : public Receiver {
 public:
  struct Message {
    wire::FrameHeader header;  // of the last frame
    std::vector<std::byte> bytes;
    std::size_t filled_bytes = 0;
    bool placed = false;  // the last frame was written to the memory from place()
  };
  struct Loss {
    Rank peer;
    Error why;
  };

  bool use_place = false;
  std::function<bool(Rank from)> hold = [](Rank) { return false; };

  std::map<Rank, std::vector<Message>> messages;
  std::vector<Loss> losses;
  int goodbye_count = 0;
  int hold_count = 0;

  std::size_t count_from(Rank from) const {
    const auto found = messages.find(from);
    return found == messages.end() ? 0 : found->second.size();
  }

  std::span<std::byte> place(Rank from, const wire::FrameHeader& header) override {
    if (!use_place) return {};
    return room_for(from, header);
  }

  Acceptance deliver(Rank from, const wire::FrameHeader& header,
                     std::span<const std::byte> payload) override {
    EXPECT_EQ(payload.size(), header.payload_bytes);
    if (hold(from)) {
      ++hold_count;
      return Acceptance::kHold;
    }
    if (header.kind == wire::FrameKind::kGoodbye) {
      ++goodbye_count;
      return Acceptance::kTaken;
    }
    Message& message = partial_[from];
    if (header.offset_bytes == 0)
      message.filled_bytes = 0;  // the previous message may have been withdrawn
    EXPECT_EQ(message.filled_bytes, header.offset_bytes) << "frames of " << from << " out of order";
    const std::span<std::byte> room = room_for(from, header);
    message.placed = room.data() == payload.data();
    if (!message.placed) std::copy(payload.begin(), payload.end(), room.begin());
    message.filled_bytes += payload.size();
    message.header = header;
    if (message.filled_bytes == header.message_bytes) {
      messages[from].push_back(std::move(message));
      partial_.erase(from);
    }
    return Acceptance::kTaken;
  }

  void lost(Rank peer, const Error& why) override { losses.push_back({peer, why}); }

 private:
  std::span<std::byte> room_for(Rank from, const wire::FrameHeader& header) {
    Message& message = partial_[from];
    message.bytes.resize(header.message_bytes);
    return std::span(message.bytes).subspan(header.offset_bytes, header.payload_bytes);
  }
  std::map<Rank, Message> partial_;
};

// A message with its memory.
struct Letter {
  Outgoing outgoing;
  std::vector<std::byte> bytes;
};

// Bytes that depend on their position.
inline std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> made(bytes);
  std::uint32_t state = seed * 2654435761U + 1;
  for (auto& byte : made) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return made;
}

// Connected transports driven by one thread.
class TransportConformance : public testing::TestWithParam<TransportFactory> {
 protected:
  // Skips the test if the transport is not available.
  bool make(int size) {
    transports_ = GetParam().make(size);
    inboxes_.resize(transports_.size());
    return !transports_.empty();
  }

  Transport& at(Rank rank) { return *transports_[static_cast<std::size_t>(rank)]; }
  Inbox& inbox(Rank rank) { return inboxes_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(transports_.size()); }

  Letter& post(Rank from, Rank to, std::vector<std::byte> bytes, std::uint32_t sequence = 0) {
    Letter& letter = letters_.emplace_back();
    letter.bytes = std::move(bytes);
    letter.outgoing.header.sequence = sequence;
    letter.outgoing.payload = letter.bytes;
    at(from).post(to, letter.outgoing);
    return letter;
  }

  // A message may arrive before the thread that sends it has reported that.
  bool all_sent() const {
    return std::all_of(letters_.begin(), letters_.end(),
                       [](const Letter& letter) { return letter.outgoing.sent(); });
  }

  bool progress_all() {
    bool moved = false;
    for (std::size_t rank = 0; rank < transports_.size(); ++rank) {
      if (transports_[rank] != nullptr) moved |= transports_[rank]->progress(inboxes_[rank]);
    }
    return moved;
  }

  // Drives all transports until `done`; fails after a time limit.
  testing::AssertionResult drive(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (!progress_all() && std::chrono::steady_clock::now() > end) {
        return testing::AssertionFailure() << "not done within the time allowed";
      }
    }
    return testing::AssertionSuccess();
  }

  // Drives all transports until nothing has moved for many turns, for tests that expect no event.
  void settle() {
    for (int quiet = 0; quiet < 200; ++quiet) {
      if (progress_all()) quiet = 0;
    }
  }

  void kill(Rank rank) { GetParam().kill(std::move(transports_[static_cast<std::size_t>(rank)])); }

  static constexpr std::chrono::seconds kPatience{60};

  std::deque<Letter> letters_;  // outlive the transports
  std::vector<std::unique_ptr<Transport>> transports_;
  std::deque<Inbox> inboxes_;
};

// Tests that measure real time; transports in virtual time leave them out.
class RealTimeTransportConformance : public TransportConformance {};

}  // namespace tally::net
