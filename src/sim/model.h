#pragma once
#include "tally/deadline.h"

namespace tally::sim {

// A link in the alpha-beta model: a message of n bytes takes latency + n / bytes_per_second.
struct Link {
  Duration latency{};
  double bytes_per_second = 1e9;
};

// A cluster without congestion: every rank sends and receives at once at full speed on each of two
// links of its own, one for ranks of its host and one for all others. Ranks lie on hosts in order,
// `local_ranks` to each.
struct Model {
  Link network;
  Link local;
  int local_ranks = 1;
  double reduce_seconds_per_byte = 0;  // the cost of adding one arriving byte
};

}  // namespace tally::sim
