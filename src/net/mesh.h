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
  // Where each rank listens, by rank; its length is the number of ranks.
  std::vector<Address> addresses;
  // Which ranks need a connection, by rank; both sides of a pair must agree. Empty: all.
  std::vector<bool> wanted;
  // Set: TLS with this secret; not set: plain TCP.
  std::optional<Secret> secret;
  // A connection that somebody opened has so long to say who it is.
  std::chrono::milliseconds greeting_limit = std::chrono::seconds(5);
  // Told of every connection that was turned away and why; may be null.
  std::function<void(const Error&)> refused;
};

// Connects this rank with every wanted one: it calls the lower ranks and is called by the higher
// ones. Strangers, port scans and silent connections on `listener` are turned away and disturb
// nobody. The streams come by rank, nullptr where none was wanted. kRefused if a lower rank turns
// this one away (secret, version, job, generation, duplicate); kTimeout, naming the lowest rank
// that is missing, when `by` passes.
Result<std::vector<std::unique_ptr<Stream>>> connect_mesh(Listener& listener,
                                                          const MeshOptions& options, Deadline by);

}  // namespace tally::net
