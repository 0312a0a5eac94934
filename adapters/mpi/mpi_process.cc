#include "adapters/mpi/mpi_process.h"

#include <array>
#include <cstdlib>
#include <memory>

#include "base/errors.h"
#include "base/log.h"

namespace tally::mpi {
namespace {

bool finalised() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

ErrorCode code_of(int error_class) {
  if (error_class == MPI_ERR_TRUNCATE) return ErrorCode::kMismatch;
#ifdef MPIX_ERR_PROC_FAILED
  if (error_class == MPIX_ERR_PROC_FAILED) return ErrorCode::kPeerLost;
#endif
  return ErrorCode::kSystem;
}

// Global because MPI is. Never destroyed: the exit handler needs it.
MpiProcess* process = nullptr;

}  // namespace

Result<MpiProcess*> MpiProcess::start() {
  static std::mutex mutex;
  const std::unique_lock lock(mutex);
  if (process != nullptr && process->spoiled()) return process->why_spoiled();
  if (finalised()) return invalid("MPI is finalised and cannot be initialised again");
  if (process == nullptr) {
    std::unique_ptr<MpiProcess> candidate(new MpiProcess());
    TALLY_TRY(candidate->initialise());
    process = candidate.release();
  }
  return process;
}

Result<void> MpiProcess::initialise() {
  int flag = 0;
  MPI_Initialized(&flag);
  if (flag != 0) {
    TALLY_TRY(outcome_of(MPI_Query_thread(&thread_level_), "MPI_Query_thread"));
  } else {
    TALLY_TRY(outcome_of(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level_),
                         "MPI_Init_thread"));
    // MPI_Test reports errors through these handlers, for operations on any communicator. A program
    // that initialised MPI itself keeps its own handlers.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    std::atexit(&MpiProcess::finalise_at_exit);
  }
  void* value = nullptr;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  largest_tag_ = flag != 0 ? *static_cast<int*>(value) : 32767;  // the least that MPI allows
  return {};
}

void MpiProcess::finalise_at_exit() {
  if (!finalised() && process != nullptr && !process->spoiled()) MPI_Finalize();
}

void MpiProcess::spoil(const Error& error) {
  {
    const MutexLock lock(mutex_);
    if (first_error_) return;
    first_error_ = error;
    spoiled_.store(true, std::memory_order_release);
  }
  // Logged now, because at exit the logger may be gone.
  log_warning(
      "an MPI operation can be neither completed nor cancelled, or a rank is lost: this process no "
      "longer uses MPI and will not finalise it, so the launcher may report that it ended early");
}

Error MpiProcess::why_spoiled() const {
  const MutexLock lock(mutex_);
  return first_error_.value_or(Error{});
}

bool MpiProcess::usable() const { return !spoiled() && !finalised(); }

Error error_of(int code, std::string_view call) {
  int error_class = MPI_ERR_OTHER;
  MPI_Error_class(code, &error_class);
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return make_error(code_of(error_class), "{}: {}", call,
                    std::string_view(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace tally::mpi
