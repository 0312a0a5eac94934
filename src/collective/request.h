#pragma once
#include "base/recorder.h"
#include "collective/schedule.h"
#include "tally/communicator.h"
#include "wire/frame.h"

namespace tally::collective {

// Whether the request is point-to-point: a send or a receive, not a collective.
inline bool is_point(const Request& request) { return tally::is_point(request.operation); }

// Checks the arguments before `rank` of a communicator of `ranks` runs the request. kInvalid names
// the wrong one.
Result<void> check(const Request& request, Rank rank, int ranks);

// The arguments that must be equal on all ranks of one operation. A send and its receive have the
// same signature.
wire::Signature signature_of(const Request& request, Algorithm algorithm);

// How the buffer with one part per rank is divided, such as the output of an all-gather: by
// `counts`, or into parts of `count` elements. For kAllToAll this is the input.
Parts parts_of(const Request& request, int ranks);

}  // namespace tally::collective
