#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "net/transport.h"

namespace tally::sim {

// Stores arriving messages. For tests.
class Inbox final : public net::Receiver {
 public:
  struct Arrival {
    Rank from = kNoRank;
    wire::FrameHeader header;
    std::string text;
  };

  std::span<std::byte> place(Rank, const wire::FrameHeader& header) override {
    if (places.size() < header.payload_bytes) return {};
    return std::span(places).first(header.payload_bytes);
  }

  net::Acceptance deliver(Rank from, const wire::FrameHeader& header,
                          std::span<const std::byte> payload) override {
    if (hold) return net::Acceptance::kHold;
    if (header.kind == wire::FrameKind::kGoodbye) {
      departed.push_back(from);
      return net::Acceptance::kTaken;
    }
    std::string text;
    if (payload.data() != nullptr) {
      text.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    }
    arrivals.push_back({from, header, std::move(text)});
    return net::Acceptance::kTaken;
  }

  void lost(Rank peer, const Error& why) override { losses.emplace(peer, why); }

  std::vector<std::byte> places;  // lent to every payload that fits
  bool hold = false;
  std::vector<Arrival> arrivals;
  std::vector<Rank> departed;
  std::multimap<Rank, Error> losses;
};

// A message that owns its text.
class TextMessage {
 public:
  explicit TextMessage(std::string text, std::uint32_t step = 0) : text_(std::move(text)) {
    outgoing_.header.step = step;
    outgoing_.payload = std::as_bytes(std::span(text_));
  }
  TextMessage(const TextMessage&) = delete;
  TextMessage& operator=(const TextMessage&) = delete;

  net::Outgoing& outgoing() { return outgoing_; }
  bool sent() const { return outgoing_.sent(); }

 private:
  std::string text_;
  net::Outgoing outgoing_;
};

}  // namespace tally::sim
