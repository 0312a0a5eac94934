#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tally/error.h"
#include "wire/frame.h"

namespace tally::wire {

// A random number that only the members of a job learn, at the rendezvous. It tells the connections
// of two jobs apart. It is not a secret: plain TCP sends it in the clear.
using JobToken = std::array<std::byte, 16>;

// The first message of the connecting side.
struct Greeting {
  std::uint16_t version = kProtocolVersion;
  Rank from = 0;
  Rank to = 0;
  std::uint32_t generation = 0;
  JobToken token{};

  friend bool operator==(const Greeting&, const Greeting&) = default;
};

enum class GreetingStatus : std::uint8_t {
  kAccepted = 0,
  kOtherVersion = 1,
  kOtherToken = 2,
  kOtherGeneration = 3,
  kOtherRank = 4,  // not the rank that was meant, or not one that should call
  kDuplicate = 5,  // that rank is connected already
};

// "its generation is another one", to follow the peer's name.
std::string_view to_string(GreetingStatus status);

// The reply of the accepting side.
struct GreetingAnswer {
  std::uint16_t version = kProtocolVersion;
  GreetingStatus status = GreetingStatus::kAccepted;
  Rank rank = 0;
  std::uint32_t generation = 0;

  friend bool operator==(const GreetingAnswer&, const GreetingAnswer&) = default;
};

inline constexpr std::size_t kGreetingBytes = 40;
inline constexpr std::size_t kAnswerBytes = 20;
using EncodedGreeting = std::array<std::byte, kGreetingBytes>;
using EncodedAnswer = std::array<std::byte, kAnswerBytes>;

// The common part of all greetings and answers: the magic at 0, the version at 4, and at the end a
// CRC32C of everything before it. check_seal() is kCorrupt unless magic and checksum are right.
void seal(std::span<std::byte> bytes, std::uint32_t magic, std::uint16_t version);
Result<void> check_seal(std::span<const std::byte> bytes, std::uint32_t magic);
std::uint16_t version_of(std::span<const std::byte> greeting);

// These two layouts are the same in every version, so that versions can tell each other apart.
EncodedGreeting encode(const Greeting& greeting);
EncodedAnswer encode(const GreetingAnswer& answer);
// kCorrupt unless magic and checksum are right; a version other than ours is for the caller to
// judge.
Result<Greeting> decode_greeting(std::span<const std::byte, kGreetingBytes> bytes);
Result<GreetingAnswer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes);

}  // namespace tally::wire
