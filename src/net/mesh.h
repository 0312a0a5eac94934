#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "net/socket.h"
#include "net/stream.h"
#include "tally/deadline.h"
#include "tally/error.h"
#include "tally/job.h"
#include "wire/greeting.h"

namespace tally::net {

struct MeshOptions {
  Rank rank = 0;
  std::uint32_t generation = 0;
  wire::JobToken token{};
  // The listening address of each rank; the length is the number of ranks.
  std::vector<Address> addresses;
  // The ranks that need a connection, by rank; both sides of a pair must agree. Empty: all.
  std::vector<bool> wanted;
  // Set: TLS with this secret; not set: plain TCP.
  std::optional<Secret> secret;
  // Time limit for the greeting of an accepted connection.
  std::chrono::milliseconds greeting_limit = std::chrono::seconds(5);
  // Called with the reason for every refused connection; may be null.
  std::function<void(const Error&)> refused;
};

// Connects this rank with every wanted one: it connects to the lower ranks and accepts the higher
// ones. Unknown peers, port scans and silent connections on `listener` are refused. Returns the
// streams by rank, nullptr where none was wanted. kRefused if a lower rank refuses this one
// (secret, version, job, generation, duplicate); kTimeout, naming the lowest missing rank, when
// `by` passes.
Result<std::vector<std::unique_ptr<Stream>>> connect_mesh(Listener& listener,
                                                          const MeshOptions& options, Deadline by);

}  // namespace tally::net
