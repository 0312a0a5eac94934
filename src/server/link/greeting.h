#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "net/greeting_exchange.h"
#include "server/protocol/message.h"
#include "tally/error.h"

namespace tally::server {

enum class Role : std::uint8_t { kDirectory = 1, kServer = 2, kWorker = 3 };

// Tells the links of two jobs apart. The directory draws it and tells it to all whom it lets in. No
// secret: on plain TCP it crosses the network in the clear.
using Token = std::array<std::byte, 16>;

inline constexpr std::uint16_t kLinkVersion = 1;

// What the side that connects says first.
struct LinkGreeting {
  std::uint16_t version = kLinkVersion;
  Role role = Role::kWorker;
  NodeId from = kNoNode;     // not numbered yet: to the directory only
  NodeId to = kDirectoryId;  // who is meant
  Token token{};             // zero: to the directory only

  friend bool operator==(const LinkGreeting&, const LinkGreeting&) = default;
};

enum class LinkVerdict : std::uint8_t {
  kWelcome = 0,
  kOtherVersion = 1,
  kOtherJob = 2,
  kOtherNode = 3,  // not the one that was meant, or one that has no reason to call
};

// "it belongs to another job", to follow the peer's name.
std::string_view to_string(LinkVerdict verdict);

// What the side that was called says back; after anything but kWelcome it closes.
struct LinkAnswer {
  std::uint16_t version = kLinkVersion;
  LinkVerdict verdict = LinkVerdict::kWelcome;
  NodeId id = kDirectoryId;  // who answers
  Token token{};             // from the directory: the job's; from others zero

  friend bool operator==(const LinkAnswer&, const LinkAnswer&) = default;
};

inline constexpr std::size_t kLinkGreetingBytes = 36;
inline constexpr std::size_t kLinkAnswerBytes = 32;
using EncodedLinkGreeting = std::array<std::byte, kLinkGreetingBytes>;
using EncodedLinkAnswer = std::array<std::byte, kLinkAnswerBytes>;

// These two layouts are the same in every version, so that versions can tell each other apart.
EncodedLinkGreeting encode(const LinkGreeting& greeting);
EncodedLinkAnswer encode(const LinkAnswer& answer);
// kCorrupt unless magic, checksum and role are right; another version is for judge().
Result<LinkGreeting> decode_link_greeting(std::span<const std::byte, kLinkGreetingBytes> bytes);
Result<LinkAnswer> decode_link_answer(std::span<const std::byte, kLinkAnswerBytes> bytes);

// Who is called.
struct LinkHost {
  Role role = Role::kServer;
  NodeId id = kNoNode;
  Token token{};
};
LinkVerdict judge(const LinkGreeting& greeting, const LinkHost& host);

// The two sides of a net::GreetingExchange that opens a link. The greeting that arrives, or the
// answer, is written to the second argument, which must outlive the exchange.
net::GreetingExchange::Host accepting_link(std::function<LinkAnswer(const LinkGreeting&)> judge,
                                           LinkGreeting& greeting);
net::GreetingExchange::Caller calling_link(const LinkGreeting& greeting, LinkAnswer& answer);

}  // namespace tally::server
