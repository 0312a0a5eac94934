// Runs a fuzz target without a fuzzer: its seeds, then many inputs made from them. The same inputs
// every time; `program RUNS SEED` for others.
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/rng.h"
#include "fuzz_entry.h"

namespace {

using Input = std::vector<std::uint8_t>;

// One mutation of the input: bytes are altered, removed, repeated, replaced or appended.
void mutate(Input& input, tally::Rng& rng) {
  const auto position = [&] { return rng.below(input.size()); };
  switch (input.empty() ? 4 : rng.below(6)) {
    case 0:
      input[position()] ^= static_cast<std::uint8_t>(1U << rng.below(8));
      break;
    case 1:
      input[position()] = static_cast<std::uint8_t>(rng.next());
      break;
    case 2:
      input.resize(position());
      break;
    case 3: {
      const std::size_t from = position();
      const Input again(input.begin() + static_cast<std::ptrdiff_t>(from), input.end());
      input.insert(input.end(), again.begin(), again.end());
      break;
    }
    case 4:
      for (std::uint64_t i = rng.below(200); i > 0; --i) {
        input.push_back(static_cast<std::uint8_t>(rng.next()));
      }
      break;
    default:
      input[position()] = rng.below(2) == 0 ? 0x00 : 0xFF;
      break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  const long runs = argc > 1 ? std::strtol(arguments[1], nullptr, 10) : 4000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  const std::vector<Input> seeds = fuzz_seeds();
  for (const Input& input : seeds) LLVMFuzzerTestOneInput(input.data(), input.size());

  tally::Rng rng(seed);
  for (long run = 0; run < runs; ++run) {
    Input input = seeds[rng.below(seeds.size())];
    for (std::uint64_t changes = rng.below(5); changes > 0; --changes) mutate(input, rng);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu seeds and %ld inputs, random seed %llu\n", seeds.size(), runs,
              static_cast<unsigned long long>(seed));
  return 0;
}
