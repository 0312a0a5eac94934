#pragma once
#include "collective/layout.h"
#include "tally/communicator.h"
#include "wire/frame.h"

namespace tally::collective {

// Sends and receives: operations of two ranks, where all others are collectives.
inline bool is_point(const Request& request) {
  return request.operation == Operation::kSend || request.operation == Operation::kReceive;
}

// kInvalid, saying what is wrong, for a request that no communicator of this size could carry out.
Result<void> check(const Request& request, Rank rank, int ranks);

// What all ranks of one operation must agree on.
wire::Signature signature_of(const Request& request, Algorithm algorithm);

// The parts of the operation's large buffer by rank: `counts`, or equal ones.
Parts parts_of(const Request& request, int ranks);

}  // namespace tally::collective
