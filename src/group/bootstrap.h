#pragma once
#include <memory>
#include <optional>

#include "group/local_bootstrap.h"
#include "group/rendezvous_note.h"
#include "net/socket.h"
#include "tally/deadline.h"
#include "tally/job.h"

namespace tally::group {

// Everything that a rank needs in order to join the rendezvous.
struct BootstrapResult {
  // The options as given, completed by the launcher's facts: rank, size, address of the rendezvous
  // and its secret.
  JobOptions options;
  // Rank 0 only, where it listens before it tells the others its address.
  std::optional<net::Listener> listener;
  // Rank 0 on one host only: keep it until all ranks have joined.
  std::unique_ptr<LocalBootstrap> local;
};

// Finds the address of the rendezvous in the way that options.bootstrap names. kInvalid for options
// that contradict each other, kTimeout if rank 0 does not publish its address in time.
Result<BootstrapResult> bootstrap(const JobOptions& options, Deadline by);

}  // namespace tally::group
