// Frame headers and greetings: bytes that decode must encode to the same bytes again; an encoding
// of arbitrary fields must decode to these or be refused for its lengths.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"
#include "fuzz_entry.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/frame.h"
#include "wire/greeting.h"
#include "wire/little_endian.h"

namespace tally::wire {
namespace {

template <std::size_t N>
std::array<std::byte, N> first_bytes(const std::uint8_t* data, std::size_t size) {
  std::array<std::byte, N> bytes{};
  if (size > 0) std::memcpy(bytes.data(), data, std::min(size, N));
  return bytes;
}

void check_header(EncodedHeader bytes) {
  const auto check = [](const EncodedHeader& encoded) {
    const auto decoded = decode(encoded);
    if (!decoded) return;
    TALLY_CHECK(encode(*decoded) == encoded);
    TALLY_CHECK(decoded->payload_bytes <= kMaxPayloadBytes);
    TALLY_CHECK(decoded->offset_bytes <= decoded->message_bytes);
    TALLY_CHECK(decoded->payload_bytes <= decoded->message_bytes - decoded->offset_bytes);
  };
  check(bytes);
  // The same with a correct checksum, so that the input reaches the later checks.
  store(bytes, 76, kernel::crc32c(std::span(bytes).first(76)));
  check(bytes);
}

void check_greeting(EncodedGreeting bytes) {
  for (int turn = 0; turn < 2; ++turn) {
    const auto decoded = decode_greeting(bytes);
    if (decoded) TALLY_CHECK(decode_greeting(encode(*decoded)).value() == *decoded);
    store(bytes, 36, kernel::crc32c(std::span(bytes).first(36)));
  }
}

void check_answer(EncodedAnswer bytes) {
  for (int turn = 0; turn < 2; ++turn) {
    const auto decoded = decode_answer(bytes);
    if (decoded) {
      TALLY_CHECK(decode_answer(encode(*decoded)).value() == *decoded);
      TALLY_CHECK(!to_string(decoded->status).empty());
    }
    store(bytes, 16, kernel::crc32c(std::span(bytes).first(16)));
  }
}

}  // namespace
}  // namespace tally::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::wire;
  check_header(first_bytes<kHeaderBytes>(data, size));
  check_greeting(first_bytes<kGreetingBytes>(data, size));
  check_answer(first_bytes<kAnswerBytes>(data, size));
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally::wire;
  const auto as_input = [](const auto& encoded) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(encoded.data());
    return std::vector<std::uint8_t>(begin, begin + encoded.size());
  };
  return {{},
          as_input(encode(FrameHeader{.kind = FrameKind::kGoodbye})),
          as_input(encode(FrameHeader{.generation = 7,
                                      .number = 9,
                                      .message_bytes = 1000,
                                      .offset_bytes = 100,
                                      .payload_bytes = 900})),
          as_input(encode(Greeting{.from = 2, .to = 1, .generation = 3})),
          as_input(encode(GreetingAnswer{.status = GreetingStatus::kDuplicate, .rank = 1}))};
}
