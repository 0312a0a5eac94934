#include "server/greeting.h"

#include <algorithm>
#include <cstring>

#include "kernel/crc32c/crc32c.h"
#include "wire/little_endian.h"

namespace tally::server {
namespace {

using wire::load;
using wire::store;

constexpr std::uint32_t kGreetingMagic = 0x47594C54;  // "TLYG" as the bytes lie
constexpr std::uint32_t kAnswerMagic = 0x52594C54;    // "TLYR"

// Both begin alike; docs/wire_format.md has the same tables.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kRoleAt = 6;
constexpr std::size_t kVerdictAt = 6;
constexpr std::size_t kZeroAt = 7;
constexpr std::size_t kIdAt = 8;
constexpr std::size_t kToAt = 12;
constexpr std::size_t kGreetingTokenAt = 16;
constexpr std::size_t kGreetingChecksumAt = 32;
constexpr std::size_t kAnswerTokenAt = 12;
constexpr std::size_t kAnswerChecksumAt = 28;
static_assert(kGreetingChecksumAt + 4 == kLinkGreetingBytes);
static_assert(kAnswerChecksumAt + 4 == kLinkAnswerBytes);

Error corrupt(const char* message) { return {.code = ErrorCode::kCorrupt, .message = message}; }

void store_token(std::span<std::byte> bytes, std::size_t at, const Token& token) {
  std::memcpy(bytes.data() + at, token.data(), token.size());
}

Token load_token(std::span<const std::byte> bytes, std::size_t at) {
  Token token;
  std::memcpy(token.data(), bytes.data() + at, token.size());
  return token;
}

Result<void> check_envelope(std::span<const std::byte> bytes, std::uint32_t magic,
                            std::size_t checksum_at) {
  if (load<std::uint32_t>(bytes, kMagicAt) != magic) return corrupt("wrong magic");
  if (load<std::uint32_t>(bytes, checksum_at) != kernel::crc32c(bytes.first(checksum_at)))
    return corrupt("checksum fails");
  if (bytes[kZeroAt] != std::byte{0}) return corrupt("reserved byte in use");
  return {};
}

}  // namespace

std::string_view to_string(LinkVerdict verdict) {
  switch (verdict) {
    case LinkVerdict::kWelcome:
      return "it is welcome";
    case LinkVerdict::kOtherVersion:
      return "it speaks another version";
    case LinkVerdict::kOtherJob:
      return "it belongs to another job";
    case LinkVerdict::kOtherNode:
      return "it meant somebody else";
  }
  return "for an unknown reason";
}

EncodedLinkGreeting encode(const LinkGreeting& greeting) {
  EncodedLinkGreeting bytes{};
  store(bytes, kMagicAt, kGreetingMagic);
  store(bytes, kVersionAt, greeting.version);
  store(bytes, kRoleAt, static_cast<std::uint8_t>(greeting.role));
  store(bytes, kIdAt, greeting.from);
  store(bytes, kToAt, greeting.to);
  store_token(bytes, kGreetingTokenAt, greeting.token);
  store(bytes, kGreetingChecksumAt, kernel::crc32c(std::span(bytes).first(kGreetingChecksumAt)));
  return bytes;
}

EncodedLinkAnswer encode(const LinkAnswer& answer) {
  EncodedLinkAnswer bytes{};
  store(bytes, kMagicAt, kAnswerMagic);
  store(bytes, kVersionAt, answer.version);
  store(bytes, kVerdictAt, static_cast<std::uint8_t>(answer.verdict));
  store(bytes, kIdAt, answer.id);
  store_token(bytes, kAnswerTokenAt, answer.token);
  store(bytes, kAnswerChecksumAt, kernel::crc32c(std::span(bytes).first(kAnswerChecksumAt)));
  return bytes;
}

Result<LinkGreeting> decode_link_greeting(std::span<const std::byte, kLinkGreetingBytes> bytes) {
  TALLY_TRY(check_envelope(bytes, kGreetingMagic, kGreetingChecksumAt));
  const auto role = load<std::uint8_t>(bytes, kRoleAt);
  if (role < static_cast<std::uint8_t>(Role::kDirects) ||
      role > static_cast<std::uint8_t>(Role::kWorks))
    return corrupt("unknown role");
  return LinkGreeting{.version = load<std::uint16_t>(bytes, kVersionAt),
                      .role = static_cast<Role>(role),
                      .from = load<std::uint32_t>(bytes, kIdAt),
                      .to = load<std::uint32_t>(bytes, kToAt),
                      .token = load_token(bytes, kGreetingTokenAt)};
}

Result<LinkAnswer> decode_link_answer(std::span<const std::byte, kLinkAnswerBytes> bytes) {
  TALLY_TRY(check_envelope(bytes, kAnswerMagic, kAnswerChecksumAt));
  const auto verdict = load<std::uint8_t>(bytes, kVerdictAt);
  if (verdict > static_cast<std::uint8_t>(LinkVerdict::kOtherNode))
    return corrupt("unknown verdict");
  return LinkAnswer{.version = load<std::uint16_t>(bytes, kVersionAt),
                    .verdict = static_cast<LinkVerdict>(verdict),
                    .id = load<std::uint32_t>(bytes, kIdAt),
                    .token = load_token(bytes, kAnswerTokenAt)};
}

LinkVerdict judge(const LinkGreeting& greeting, const LinkHost& host) {
  if (greeting.version != kLinkVersion) return LinkVerdict::kOtherVersion;
  if (greeting.role == Role::kDirects || greeting.to != host.id) return LinkVerdict::kOtherNode;
  if (host.role == Role::kDirects) return LinkVerdict::kWelcome;
  if (greeting.token != host.token) return LinkVerdict::kOtherJob;
  const bool numbered = greeting.from != kUnnumbered && greeting.from != kDirectory;
  return numbered && greeting.from != host.id ? LinkVerdict::kWelcome : LinkVerdict::kOtherNode;
}

}  // namespace tally::server
