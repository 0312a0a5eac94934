// The state of a round from another server: accepted state encodes to bytes that are accepted and
// encode to the same bytes.
#include <span>
#include <vector>

#include "base/check.h"
#include "fuzz_entry.h"
#include "policy/round.h"

namespace {

tally::policy::Round round_of_two() {
  tally::policy::Round round(tally::policy::Rules{.workers = 2, .needed = 2});
  round.join(1, 0);
  round.join(2, 1);
  return round;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally;
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  policy::Round round = round_of_two();
  const auto taken = round.restore(input);
  if (!taken) {
    TALLY_CHECK(taken.error().code == ErrorCode::kCorrupt);
    return 0;
  }
  policy::Round again = round_of_two();
  TALLY_CHECK(again.restore(round.encode()).has_value());
  TALLY_CHECK(again.encode() == round.encode());
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  std::vector<std::vector<std::uint8_t>> seeds;
  const auto add = [&](const tally::policy::Round& round) {
    std::vector<std::uint8_t> seed;
    for (const std::byte byte : round.encode()) seed.push_back(static_cast<std::uint8_t>(byte));
    seeds.push_back(seed);
  };
  add(round_of_two());
  tally::policy::Round started(tally::policy::Rules{.workers = 3, .needed = 3});
  started.join(1, 0);
  started.join(2, 4);
  started.advance(2, 9);
  started.set_version(77);
  add(started);
  return seeds;
}
