#include "wire/greeting.h"

#include <algorithm>

#include "kernel/crc32c/crc32c.h"
#include "wire/little_endian.h"

namespace tally::wire {
namespace {

constexpr std::uint32_t kGreetingMagic = 0x48594C54;  // "TLYH" as the bytes lie
constexpr std::uint32_t kAnswerMagic = 0x41594C54;    // "TLYA"

// Both layouts begin with the magic at 0 and the version at 4, and end with the checksum.
void seal(std::span<std::byte> bytes, std::uint32_t magic, std::uint16_t version) {
  store(bytes, 0, magic);
  store(bytes, 4, version);
  const std::size_t checksum_at = bytes.size() - sizeof(std::uint32_t);
  store(bytes, checksum_at, kernel::crc32c(bytes.first(checksum_at)));
}

Result<void> check_seal(std::span<const std::byte> bytes, std::uint32_t magic) {
  const std::size_t checksum_at = bytes.size() - sizeof(std::uint32_t);
  if (load<std::uint32_t>(bytes, 0) == magic &&
      load<std::uint32_t>(bytes, checksum_at) == kernel::crc32c(bytes.first(checksum_at))) {
    return {};
  }
  return Error{.code = ErrorCode::kCorrupt, .message = "the peer does not speak this protocol"};
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kWelcome:
      return "it is welcome";
    case Verdict::kOtherVersion:
      return "its protocol version is another one";
    case Verdict::kOtherToken:
      return "it belongs to another job";
    case Verdict::kOtherGeneration:
      return "its generation is another one";
    case Verdict::kOtherRank:
      return "the ranks do not fit";
    case Verdict::kDuplicate:
      return "its rank is connected already";
  }
  return "unknown reason";
}

EncodedGreeting encode(const Greeting& greeting) {
  EncodedGreeting bytes{};
  store(bytes, 8, greeting.from);
  store(bytes, 12, greeting.to);
  store(bytes, 16, greeting.generation);
  std::copy(greeting.token.begin(), greeting.token.end(), bytes.begin() + 20);
  seal(bytes, kGreetingMagic, greeting.version);
  return bytes;
}

EncodedAnswer encode(const GreetingAnswer& answer) {
  EncodedAnswer bytes{};
  store(bytes, 6, static_cast<std::uint8_t>(answer.verdict));
  store(bytes, 8, answer.rank);
  store(bytes, 12, answer.generation);
  seal(bytes, kAnswerMagic, answer.version);
  return bytes;
}

Result<Greeting> decode_greeting(std::span<const std::byte, kGreetingBytes> bytes) {
  TALLY_TRY(check_seal(bytes, kGreetingMagic));
  Greeting greeting{.version = load<std::uint16_t>(bytes, 4),
                    .from = load<Rank>(bytes, 8),
                    .to = load<Rank>(bytes, 12),
                    .generation = load<std::uint32_t>(bytes, 16)};
  std::copy_n(bytes.begin() + 20, greeting.token.size(), greeting.token.begin());
  return greeting;
}

Result<GreetingAnswer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes) {
  TALLY_TRY(check_seal(bytes, kAnswerMagic));
  return GreetingAnswer{.version = load<std::uint16_t>(bytes, 4),
                        .verdict = static_cast<Verdict>(load<std::uint8_t>(bytes, 6)),
                        .rank = load<Rank>(bytes, 8),
                        .generation = load<std::uint32_t>(bytes, 12)};
}

}  // namespace tally::wire
