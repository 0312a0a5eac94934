#pragma once
#include <mpi.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "base/mutex.h"
#include "tally/error.h"

namespace tally::mpi {

// The MPI of this process: there is only one, it begins once and ends once. Threads: safe.
class MpiProcess {
 public:
  // Initialises MPI at the first call, unless the program did. What this initialised it finalises
  // when the process exits, unless spoil() was called: then MPI_Finalize might wait for ever for
  // the operation that is still under way, and the launcher learns that the rank ended without it.
  static Result<MpiProcess*> start();

  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  // Every call of MPI is made while one of these lives. It keeps threads apart where MPI asks for
  // that.
  class Entry {
   public:
    explicit Entry(std::mutex* mutex) {
      if (mutex != nullptr) lock_ = std::unique_lock(*mutex);
    }

   private:
    std::unique_lock<std::mutex> lock_;
  };
  Entry enter() { return Entry(thread_level_ == MPI_THREAD_MULTIPLE ? nullptr : &one_at_a_time_); }

  // Whether a thread of ours may call MPI, beside the program's.
  bool threads() const { return thread_level_ >= MPI_THREAD_SERIALIZED; }
  int largest_tag() const { return largest_tag_; }

  // An operation is under way that can neither be completed nor withdrawn, or will be, since a rank
  // is lost. MPI may write to its memory whenever it is called, so it is called no more: every
  // communicator refuses with the first `error`.
  void spoil(const Error& error);
  bool spoiled() const { return spoiled_.load(std::memory_order_acquire); }
  Error why_spoiled() const;
  // MPI can be called: not spoiled, not finalised.
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

// {} or the error of a call of MPI, with its text: kMismatch for a message longer than what waits
// for it, kPeerLost where the library can tell, else kSystem.
Result<void> outcome_of(int code, const char* call);

}  // namespace tally::mpi
