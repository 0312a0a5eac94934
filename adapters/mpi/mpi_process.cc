#include "adapters/mpi/mpi_process.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

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

// MPI itself is global; this is what we know of it. Never destroyed: the exit handler needs it.
MpiProcess* process = nullptr;

}  // namespace

Result<MpiProcess*> MpiProcess::start() {
  static std::mutex mutex;
  const std::unique_lock lock(mutex);
  if (process == nullptr) {
    auto* const candidate = new MpiProcess();
    const auto outcome = candidate->initialise();
    if (!outcome.has_value()) {
      delete candidate;
      return outcome.error();
    }
    process = candidate;
  }
  if (process->spoiled()) return process->why_spoiled();
  if (finalised())
    return Error{.code = ErrorCode::kInvalid, .message = "MPI is finalised and cannot begin again"};
  return process;
}

Result<void> MpiProcess::initialise() {
  int flag = 0;
  if (finalised())
    return Error{.code = ErrorCode::kInvalid, .message = "MPI is finalised and cannot begin again"};
  MPI_Initialized(&flag);
  if (flag != 0) {
    TALLY_TRY(outcome_of(MPI_Query_thread(&thread_level_), "MPI_Query_thread"));
  } else {
    TALLY_TRY(outcome_of(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level_),
                         "MPI_Init_thread"));
    // Errors of MPI_Test go by these, whatever communicator the operation was on. A program that
    // initialised MPI itself decides about its own.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    std::atexit(&MpiProcess::finalise_at_exit);
  }
  void* value = nullptr;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  largest_tag_ = flag != 0 ? *static_cast<int*>(value) : 32767;  // MPI's least
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
  // Said now: at exit there may be nobody left to say it.
  log_warning(
      "an MPI operation can be neither completed nor withdrawn, or a rank is lost: MPI is called "
      "no more, and not finalised, so that the launcher may report that this rank ended early");
}

Error MpiProcess::why_spoiled() const {
  const MutexLock lock(mutex_);
  return first_error_.value_or(Error{});
}

bool MpiProcess::usable() const { return !spoiled() && !finalised(); }

Result<void> outcome_of(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  int error_class = MPI_ERR_OTHER;
  MPI_Error_class(code, &error_class);
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Error{
      .code = code_of(error_class),
      .message = fmt::format("{}: {}", call,
                             std::string_view(text.data(), static_cast<std::size_t>(length)))};
}

}  // namespace tally::mpi
