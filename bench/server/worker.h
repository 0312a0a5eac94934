#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tally/error.h"
#include "tally/server.h"

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

struct WorkerOptions {
  server::ClientOptions client;
  int workers = 1;
  std::string only;  // cases whose name contains this; the same for all workers
  std::chrono::milliseconds slice = std::chrono::milliseconds(500);
};

// One worker: compares the result of its pushes with the expected values, then measures every case
// for a slice, together with the others. kMismatch if contents are wrong. `tell` receives each
// figure.
Result<void> run_worker(const WorkerOptions& options, const std::function<void(Figure)>& tell);

}  // namespace tally::bench::servers
