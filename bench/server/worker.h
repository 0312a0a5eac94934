#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
// for a slice, together with the others. Prints "figure CASE=VALUE" for each: dense cases in GB/s,
// sparse ones in million keys/s, latencies in microseconds. kMismatch if contents are wrong.
Result<void> run_worker(const WorkerOptions& options);

}  // namespace tally::bench::servers
