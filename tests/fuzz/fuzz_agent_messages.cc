// Messages between launcher and agents: a message that decodes encodes to the same bytes again, and
// a buffer gives the same messages for any split of its bytes.
#include <algorithm>
#include <span>

#include "apps/tally/launch/messages.h"
#include "base/check.h"
#include "fuzz_entry.h"
#include "wire/framing.h"

namespace tally::launch {
namespace {

std::size_t count_messages(std::span<const std::byte> input, std::size_t step) {
  wire::FrameBuffer buffer(wire::Framing::kLengthPrefix);
  std::size_t count = 0;
  for (std::size_t start = 0; start < input.size(); start += step) {
    buffer.add(input.subspan(start, std::min(step, input.size() - start)));
    for (;;) {
      const auto payload = buffer.next();
      Message message;
      if (!payload.has_value() || (*payload && !decode(**payload, message).has_value()))
        return count;
      if (!*payload) break;
      ++count;
    }
  }
  return count;
}

}  // namespace
}  // namespace tally::launch

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally;
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  launch::Message message;
  if (launch::decode(input, message).has_value()) {
    const std::vector<std::byte> again = launch::encode(message);
    TALLY_CHECK(std::equal(again.begin(), again.end(), input.begin(), input.end()));
  }
  TALLY_CHECK(launch::count_messages(input, 1 + size) == launch::count_messages(input, 3));
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally::launch;
  std::vector<std::vector<std::uint8_t>> seeds = {{}};
  const std::vector<Message> messages = {
      Launch{.command = {"a", "b"}, .variables = {{"N", "V"}}, .folder = "/"},
      Signal{.number = 9},
      Hello{.version = kVersion, .pid = 1, .host = "h"},
      Output{.rank = 1, .stream = Stream::kErrors, .bytes = "text\n"},
      Ended{.rank = 1, .code = 3, .note = "why"},
      Trouble{.text = "no"}};
  std::vector<std::uint8_t> all;
  for (const Message& message : messages) {
    const std::vector<std::byte> bytes =
        tally::wire::frame(tally::wire::Framing::kLengthPrefix, encode(message));
    const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
    seeds.emplace_back(begin + 4, begin + bytes.size());
    all.insert(all.end(), begin, begin + bytes.size());
  }
  seeds.push_back(all);
  return seeds;
}
