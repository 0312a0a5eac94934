#pragma once
#include <memory>

#include "bench/allreduce/contender.h"

namespace tally::bench {

// Explanation below a table with the floor.
inline constexpr const char* kMemoryFloorFormula =
    "memory floor: every rank's buffer is read once and written once, 2 x ranks x bytes, by as\n"
    "many threads as ranks (no more than cores), each on its own core and its own part of two\n"
    "arrays of ranks x bytes / 2, with a[i] = b[i] = (a[i] + b[i]) / 2.";

// Not an all-reduce but the time that memory needs for one: a lower bound for every in-place
// all-reduce with this many ranks on this machine.
std::unique_ptr<Contender> make_memory_floor(int ranks);

}  // namespace tally::bench
