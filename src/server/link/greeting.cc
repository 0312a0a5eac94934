#include "server/link/greeting.h"

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "wire/greeting.h"
#include "wire/little_endian.h"

namespace tally::server {
namespace {

using wire::load;
using wire::store;

constexpr std::uint32_t kGreetingMagic = 0x47594C54;  // "TLYG" as the bytes lie
constexpr std::uint32_t kAnswerMagic = 0x52594C54;    // "TLYR"

// docs/wire_format.md has the same tables; wire::seal() writes magic, version and checksum.
constexpr std::size_t kGreetingRoleAt = 6;
constexpr std::size_t kGreetingVerdictAt = 6;
constexpr std::size_t kGreetingZeroAt = 7;
constexpr std::size_t kGreetingIdAt = 8;
constexpr std::size_t kGreetingToAt = 12;
constexpr std::size_t kGreetingTokenAt = 16;
constexpr std::size_t kGreetingBuildAt = 24;
constexpr std::size_t kAnswerTokenAt = 12;
constexpr std::size_t kAnswerBuildAt = 20;

void store_token(std::span<std::byte> bytes, std::size_t at, const Token& token) {
  std::memcpy(bytes.data() + at, token.data(), token.size());
}

Token load_token(std::span<const std::byte> bytes, std::size_t at) {
  Token token;
  std::memcpy(token.data(), bytes.data() + at, token.size());
  return token;
}

Result<void> check_greeting(std::span<const std::byte> bytes, std::uint32_t magic) {
  TALLY_TRY(wire::check_seal(bytes, magic));
  if (bytes[kGreetingZeroAt] != std::byte{0}) return corrupt("reserved byte in use");
  return {};
}

// Whether a greeting or an answer comes from a program like this one.
template <typename Said>
bool same_build(const Said& said) {
  return said.version == kLinkVersion && said.build == kLinkBuild;
}

// Versions before 2 have no build.
std::string build_text(std::uint16_t version, std::uint64_t build) {
  return version < 2 ? fmt::format("link version {}", version)
                     : fmt::format("link version {}, build {:016x}", version, build);
}

template <typename Said>
Error other_build(const Said& said) {
  return make_error(ErrorCode::kRefused,
                    "it runs another build of Tally ({}; this program: {}): run directory, servers "
                    "and workers from the same build",
                    build_text(said.version, said.build), build_text(kLinkVersion, kLinkBuild));
}

}  // namespace

std::string_view to_string(LinkVerdict verdict) {
  constexpr std::array<std::string_view, 4> kTexts = {"it is welcome", "it runs another build",
                                                      "it belongs to another job",
                                                      "it meant somebody else"};
  const auto index = static_cast<std::size_t>(verdict);
  return index < kTexts.size() ? kTexts[index] : "for an unknown reason";
}

EncodedLinkGreeting encode(const LinkGreeting& greeting) {
  EncodedLinkGreeting bytes{};
  store(bytes, kGreetingRoleAt, static_cast<std::uint8_t>(greeting.role));
  store(bytes, kGreetingIdAt, greeting.from);
  store(bytes, kGreetingToAt, greeting.to);
  store_token(bytes, kGreetingTokenAt, greeting.token);
  store(bytes, kGreetingBuildAt, greeting.build);
  wire::seal(bytes, kGreetingMagic, greeting.version);
  return bytes;
}

EncodedLinkAnswer encode(const LinkAnswer& answer) {
  EncodedLinkAnswer bytes{};
  store(bytes, kGreetingVerdictAt, static_cast<std::uint8_t>(answer.verdict));
  store(bytes, kGreetingIdAt, answer.id);
  store_token(bytes, kAnswerTokenAt, answer.token);
  store(bytes, kAnswerBuildAt, answer.build);
  wire::seal(bytes, kAnswerMagic, answer.version);
  return bytes;
}

Result<LinkGreeting> decode_link_greeting(std::span<const std::byte, kLinkGreetingBytes> bytes) {
  TALLY_TRY(check_greeting(bytes, kGreetingMagic));
  const auto role = load<std::uint8_t>(bytes, kGreetingRoleAt);
  if (role < static_cast<std::uint8_t>(Role::kDirectory) ||
      role > static_cast<std::uint8_t>(Role::kWorker))
    return corrupt("unknown role");
  return LinkGreeting{.version = wire::version_of(bytes),
                      .role = static_cast<Role>(role),
                      .from = load<std::uint32_t>(bytes, kGreetingIdAt),
                      .to = load<std::uint32_t>(bytes, kGreetingToAt),
                      .token = load_token(bytes, kGreetingTokenAt),
                      .build = load<std::uint64_t>(bytes, kGreetingBuildAt)};
}

Result<LinkAnswer> decode_link_answer(std::span<const std::byte, kLinkAnswerBytes> bytes) {
  TALLY_TRY(check_greeting(bytes, kAnswerMagic));
  const auto verdict = load<std::uint8_t>(bytes, kGreetingVerdictAt);
  if (verdict > static_cast<std::uint8_t>(LinkVerdict::kOtherNode))
    return corrupt("unknown verdict");
  return LinkAnswer{.version = wire::version_of(bytes),
                    .verdict = static_cast<LinkVerdict>(verdict),
                    .id = load<std::uint32_t>(bytes, kGreetingIdAt),
                    .token = load_token(bytes, kAnswerTokenAt),
                    .build = load<std::uint64_t>(bytes, kAnswerBuildAt)};
}

LinkVerdict judge(const LinkGreeting& greeting, const LinkHost& host) {
  if (!same_build(greeting)) return LinkVerdict::kOtherVersion;
  if (greeting.role == Role::kDirectory || greeting.to != host.id) return LinkVerdict::kOtherNode;
  if (host.role == Role::kDirectory) return LinkVerdict::kWelcome;
  if (greeting.token != host.token) return LinkVerdict::kOtherJob;
  const bool numbered = greeting.from != kNoNode && greeting.from != kDirectoryId;
  return numbered && greeting.from != host.id ? LinkVerdict::kWelcome : LinkVerdict::kOtherNode;
}

net::GreetingExchange::Host accepting_link(std::function<LinkAnswer(const LinkGreeting&)> judge,
                                           LinkGreeting& greeting) {
  return {.greeting_bytes = kLinkGreetingBytes,
          .judge = [judge = std::move(judge), &greeting](
                       std::span<const std::byte> bytes,
                       net::GreetingExchange::Bytes& encoded) -> Result<void> {
            TALLY_TRY(greeting, decode_link_greeting(bytes.first<kLinkGreetingBytes>()));
            const LinkAnswer answer = judge(greeting);
            const EncodedLinkAnswer reply = encode(answer);
            encoded.assign(reply.begin(), reply.end());
            if (answer.verdict == LinkVerdict::kWelcome) return {};
            if (answer.verdict == LinkVerdict::kOtherVersion) return other_build(greeting);
            return make_error(ErrorCode::kRefused, "{}", to_string(answer.verdict));
          }};
}

net::GreetingExchange::Caller calling_link(const LinkGreeting& greeting, LinkAnswer& answer) {
  const EncodedLinkGreeting encoded = encode(greeting);
  return {.greeting = {encoded.begin(), encoded.end()},
          .answer_bytes = kLinkAnswerBytes,
          .check = [to = greeting.to, &answer](std::span<const std::byte> bytes) -> Result<void> {
            TALLY_TRY(answer, decode_link_answer(bytes.first<kLinkAnswerBytes>()));
            if (!same_build(answer)) return other_build(answer);
            if (answer.verdict != LinkVerdict::kWelcome)
              return make_error(ErrorCode::kRefused, "it refuses us as a caller: {}",
                                to_string(answer.verdict));
            if (answer.id != to)
              return make_error(ErrorCode::kRefused, "it is node {}, not {}", answer.id, to);
            return {};
          }};
}

}  // namespace tally::server
