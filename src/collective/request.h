#pragma once
#include "base/recorder.h"
#include "collective/schedule.h"
#include "tally/communicator.h"
#include "wire/frame.h"

namespace tally::collective {

// Whether the request is a send or a receive, which not all ranks take part in.
inline bool is_point(const Request& request) { return tally::is_point(request.operation); }

// kInvalid, with the reason, for a request that no communicator of this size could run.
Result<void> check(const Request& request, Rank rank, int ranks);

// The values that must be equal on all ranks of one operation.
wire::Signature signature_of(const Request& request, Algorithm algorithm);

// The parts of the operation's large buffer by rank: `counts`, or equal ones.
Parts parts_of(const Request& request, int ranks);

}  // namespace tally::collective
