#pragma once
#include <mpi.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/mutex.h"
#include "tally/error.h"

namespace tally::mpi {

// The MPI library of this process, which can be initialised and finalised only once. Threads: safe.
class MpiProcess {
 public:
  // Initialises MPI at the first call, unless the program has done so. MPI that start() initialised
  // is finalised when the process exits, unless spoil() was called: then MPI_Finalize could wait
  // for ever for the operation in progress, and the launcher reports that the rank exited without
  // it.
  static Result<MpiProcess*> start();

  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  // Every MPI call is made while the result lives. It serialises threads where MPI needs that.
  [[nodiscard]] std::unique_lock<std::mutex> enter() {
    if (thread_level_ == MPI_THREAD_MULTIPLE) return {};
    return std::unique_lock(one_at_a_time_);
  }

  // Whether threads other than the program's may call MPI.
  bool threads() const { return thread_level_ >= MPI_THREAD_SERIALIZED; }
  int largest_tag() const { return largest_tag_; }

  // Stops all use of MPI, because an operation can be neither completed nor cancelled or a rank is
  // lost. Any MPI call could still write to the memory of that operation. Every communicator
  // returns the first `error` from now on.
  void spoil(const Error& error);
  bool spoiled() const { return spoiled_.load(std::memory_order_acquire); }
  Error why_spoiled() const;
  // Whether MPI may be called: it is neither spoiled nor finalised.
  bool usable() const;

 private:
  MpiProcess() = default;
  Result<void> initialise();
  static void finalise_at_exit();

  std::mutex one_at_a_time_;
  int thread_level_ = MPI_THREAD_SINGLE;
  int largest_tag_ = 0;
  std::atomic<bool> spoiled_{false};
  mutable Mutex mutex_;
  std::optional<Error> first_error_ TALLY_GUARDED_BY(mutex_);
};

// The error of an MPI call that returned `code`, with the text of MPI: kMismatch for a message
// longer than its receive, kPeerLost where the library can tell, kSystem otherwise.
Error error_of(int code, std::string_view call);
inline Result<void> outcome_of(int code, std::string_view call) {
  if (code == MPI_SUCCESS) [[likely]]
    return {};
  return error_of(code, call);
}

}  // namespace tally::mpi
