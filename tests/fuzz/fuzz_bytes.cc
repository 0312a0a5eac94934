// Message bodies: a Reader told by the input what to read next never leaves the body, and an error
// body that decodes encodes to the same bytes again.
#include <algorithm>
#include <span>

#include "base/check.h"
#include "fuzz_entry.h"
#include "wire/bytes.h"
#include "wire/error_body.h"

namespace tally::wire {
namespace {

// Reads one item of the kind that `choice` stands for; false if it was not there.
bool read_one(Reader& in, std::uint8_t choice) {
  const std::size_t before = in.remaining_bytes();
  const auto took = [&](const auto& result, std::size_t bytes) {
    TALLY_CHECK(in.remaining_bytes() == (result ? before - bytes : before));
    if (!result) TALLY_CHECK(result.error().code == ErrorCode::kCorrupt);
    return result.has_value();
  };
  switch (choice % 6) {
    case 0:
      return took(in.u8(), 1);
    case 1:
      return took(in.u32(), 4);
    case 2:
      return took(in.u64(), 8);
    case 3:
      return took(in.i32(), 4);
    case 4: {
      const auto text = in.string(choice);
      if (text) TALLY_CHECK(text->size() <= choice);
      return took(text, text ? 4 + text->size() : 0);
    }
    default:
      return took(in.bytes(choice), choice);
  }
}

}  // namespace
}  // namespace tally::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally;
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  // The first bytes are what to read, the rest is the body.
  const std::size_t choices = std::min<std::size_t>(size, 16);
  wire::Reader in(input.subspan(choices));
  for (std::size_t i = 0; i < choices; ++i) {
    if (!wire::read_one(in, data[i])) break;
  }
  TALLY_CHECK(in.end().has_value() == (in.remaining_bytes() == 0));

  Error error{.code = ErrorCode::kClosed, .message = "untouched"};
  if (wire::decode_error(input, &error)) {
    const std::vector<std::byte> again = wire::encode_error(error);
    TALLY_CHECK(std::equal(again.begin(), again.end(), input.begin(), input.end()));
  } else {
    TALLY_CHECK(error.message == "untouched");
  }
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally;
  const std::vector<std::byte> body =
      wire::encode_error({.code = ErrorCode::kMismatch, .peer = 3, .message = "different counts"});
  const auto* begin = reinterpret_cast<const std::uint8_t*>(body.data());
  std::vector<std::uint8_t> mixed = {0, 1, 2, 3, 4, 19, 6, 5, 5, 5, 5, 5, 5, 5, 5, 5};
  for (std::uint8_t i = 0; i < 60; ++i) mixed.push_back(i % 20 == 19 ? 3 : 0);
  return {{}, {begin, begin + body.size()}, mixed};
}
