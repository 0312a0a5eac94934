#pragma once
#include <cstdint>

// Faults of the emulated NCCL, and what it has done: for tests.
namespace tally::nccl::emulation {

enum class Fault : std::uint8_t {
  kOldVersion,  // NCCL is of version 2.17.1
  kUniqueId,    // no network to listen on
  kConnect,     // the rank cannot connect to the others
  kNoAnswer,    // the rank connects to none of the others, which wait for it
  kCall,        // an operation is refused
  kLater,       // an operation fails after it was accepted
  kHang,        // the rank takes no part in an operation that it has accepted
  // A communicator of the rank ends when another one is aborted at the same time, as if their
  // operations had a place on the GPU together.
  kAbort,
};

// As long as this object lives, NCCL fails so on this rank of all communicators; kOldVersion and
// kUniqueId concern every rank. One object at a time.
class ScopedFault final {
 public:
  explicit ScopedFault(Fault fault, int rank = 0);
  ~ScopedFault();
  ScopedFault(const ScopedFault&) = delete;
  ScopedFault& operator=(const ScopedFault&) = delete;
};

bool is_faulty(Fault fault, int rank);

// Communicators that were not aborted yet.
int open_communicators();
// Groups of calls that all ranks have given to NCCL so far.
int issued_groups();

}  // namespace tally::nccl::emulation
