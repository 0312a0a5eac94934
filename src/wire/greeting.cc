#include "wire/greeting.h"

#include <algorithm>

#include "base/errors.h"
#include "base/names.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/little_endian.h"

namespace tally::wire {
namespace {

constexpr std::uint32_t kGreetingMagic = 0x48594C54;  // "TLYH" as the bytes lie
constexpr std::uint32_t kAnswerMagic = 0x41594C54;    // "TLYA"

}  // namespace

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
  return corrupt("the peer does not speak this protocol");
}

std::uint16_t version_of(std::span<const std::byte> greeting) {
  return load<std::uint16_t>(greeting, 4);
}

std::string_view to_string(GreetingStatus status) {
  return name_in<GreetingStatus::kDuplicate>(
      {"it is welcome", "its protocol version is another one", "it belongs to another job",
       "its generation is another one", "the ranks do not fit", "its rank is connected already"},
      status, "unknown reason");
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
  store(bytes, 6, static_cast<std::uint8_t>(answer.status));
  store(bytes, 8, answer.rank);
  store(bytes, 12, answer.generation);
  seal(bytes, kAnswerMagic, answer.version);
  return bytes;
}

Result<Greeting> decode_greeting(std::span<const std::byte, kGreetingBytes> bytes) {
  TALLY_TRY(check_seal(bytes, kGreetingMagic));
  Greeting greeting{.version = version_of(bytes),
                    .from = load<Rank>(bytes, 8),
                    .to = load<Rank>(bytes, 12),
                    .generation = load<std::uint32_t>(bytes, 16)};
  std::copy_n(bytes.begin() + 20, greeting.token.size(), greeting.token.begin());
  return greeting;
}

Result<GreetingAnswer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes) {
  TALLY_TRY(check_seal(bytes, kAnswerMagic));
  return GreetingAnswer{.version = version_of(bytes),
                        .status = static_cast<GreetingStatus>(load<std::uint8_t>(bytes, 6)),
                        .rank = load<Rank>(bytes, 8),
                        .generation = load<std::uint32_t>(bytes, 12)};
}

}  // namespace tally::wire
