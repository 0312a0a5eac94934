#pragma once
#include <memory>
#include <optional>

#include "group/local_bootstrap.h"
#include "group/rendezvous_note.h"
#include "net/socket.h"
#include "tally/deadline.h"
#include "tally/job.h"

namespace tally::group {

// What a rank needs to go to the rendezvous.
struct Appointment {
  // As given, completed by what the launcher knows: rank, size, where to meet and with which
  // secret.
  JobOptions options;
  // Rank 0, where it had to listen before the others could be told.
  std::optional<net::Listener> listener;
  // Rank 0 on one host: to be kept until all have come.
  std::unique_ptr<LocalBoard> board;
};

// Finds out where the ranks meet, as options.meeting says. kInvalid for options that make no sense,
// kTimeout if rank 0 does not say where in time.
Result<Appointment> find_meeting_place(const JobOptions& options, Deadline by);

}  // namespace tally::group
