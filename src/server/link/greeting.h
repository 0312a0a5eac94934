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

// Distinguishes the links of two jobs. The directory draws it and sends it to the nodes that join.
// It is no secret: plain TCP sends it in the clear.
using Token = std::array<std::byte, 8>;

// The version of the two layouts below.
inline constexpr std::uint16_t kLinkVersion = 2;
// A digest of the sources that decide about messages and their meaning; the build computes it. The
// two ends of a link must have the same one.
extern const std::uint64_t kLinkBuild;

// The first message of the side that connects.
struct LinkGreeting {
  std::uint16_t version = kLinkVersion;
  Role role = Role::kWorker;
  NodeId from = kNoNode;     // kNoNode: only to the directory
  NodeId to = kDirectoryId;  // the node to connect to
  Token token{};             // zero: only to the directory
  std::uint64_t build = kLinkBuild;

  friend bool operator==(const LinkGreeting&, const LinkGreeting&) = default;
};

enum class LinkVerdict : std::uint8_t {
  kWelcome = 0,
  kOtherVersion = 1,  // or another build
  kOtherJob = 2,
  kOtherNode = 3,  // not the intended node, or a caller without reason
};

// "it belongs to another job": follows the name of the peer.
std::string_view to_string(LinkVerdict verdict);

// The answer of the accepting side, which closes after all but kWelcome.
struct LinkAnswer {
  std::uint16_t version = kLinkVersion;
  LinkVerdict verdict = LinkVerdict::kWelcome;
  NodeId id = kDirectoryId;  // the answering node
  Token token{};             // from the directory; from others zero
  std::uint64_t build = kLinkBuild;

  friend bool operator==(const LinkAnswer&, const LinkAnswer&) = default;
};

inline constexpr std::size_t kLinkGreetingBytes = 36;
inline constexpr std::size_t kLinkAnswerBytes = 32;
using EncodedLinkGreeting = std::array<std::byte, kLinkGreetingBytes>;
using EncodedLinkAnswer = std::array<std::byte, kLinkAnswerBytes>;

// Both layouts have the same length, magic, version and checksum in every version, so that versions
// can recognise each other.
EncodedLinkGreeting encode(const LinkGreeting& greeting);
EncodedLinkAnswer encode(const LinkAnswer& answer);
// kCorrupt unless magic, checksum and role are right; another version is for judge().
Result<LinkGreeting> decode_link_greeting(std::span<const std::byte, kLinkGreetingBytes> bytes);
Result<LinkAnswer> decode_link_answer(std::span<const std::byte, kLinkAnswerBytes> bytes);

// The accepting node.
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
