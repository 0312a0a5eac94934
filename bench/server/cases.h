#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tally::bench::servers {

inline constexpr std::size_t kDenseBytes = std::size_t{64} << 20;
inline constexpr std::size_t kKeysOfARound = 20000;
inline constexpr std::uint64_t kAllKeys = 1000000;

// The cases, in the order in which all workers measure them.
inline constexpr std::array<std::string_view, 8> kCases = {
    "dense push",
    "dense pull",
    "dense push-and-pull",
    "sparse push d1",
    "sparse push-and-pull d1",
    "sparse push-and-pull d64",
    "latency",
    "latency p99",
};

// One figure of one worker: "dense push" in GB/s, sparse cases in million keys/s, latencies in
// microseconds.
struct Figure {
  std::string name;
  double value = 0;
};

// Bytes of a key on the wire, in both directions, in a push-and-pull of rows of `dimension` float32
// values.
constexpr double bytes_per_key(int dimension) { return 8.0 + 2.0 * 4.0 * dimension; }

}  // namespace tally::bench::servers
