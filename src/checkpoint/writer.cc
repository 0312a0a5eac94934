// The writer copies on the caller's thread and saves on its own:
//
//   save():  wait until not busy_; copy the content to copy_; set busy_
//   thread:  while busy_: save_together() from copy_; store outcome_; give pending pieces up; clear
//            busy_
//   wait():  wait until not busy_; return outcome_
//
// busy_ says which thread owns copy_. untold_ is true while outcome_ is an error that no call
// has returned.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/errors.h"
#include "base/file_io.h"
#include "base/log.h"
#include "base/mutex.h"
#include "checkpoint/folder.h"
#include "checkpoint/messages.h"
#include "checkpoint/save.h"
#include "tally/checkpoint.h"

namespace tally::checkpoint {
namespace {

// Copies a rank's content to `to`, whose pieces then borrow `memory`, except for pending ones.
// Empty pieces are left out.
void copy_content(const Content& from, Content& to, std::vector<std::byte>& memory) {
  to = from;
  std::size_t bytes = 0;
  for (auto* const pieces : {&to.model, &to.optimizer}) {
    std::erase_if(*pieces, [](const Piece& piece) { return piece.bytes.empty(); });
    for (const Piece& piece : *pieces) bytes += piece.is_pending ? 0 : piece.bytes.size();
  }
  if (memory.size() < bytes) memory.resize(bytes);
  std::byte* at = memory.data();
  for (auto* const pieces : {&to.model, &to.optimizer}) {
    for (Piece& piece : *pieces) {
      if (piece.is_pending) continue;
      std::memcpy(at, piece.bytes.data(), piece.bytes.size());
      piece.bytes = {at, piece.bytes.size()};
      at += piece.bytes.size();
    }
  }
}

// Scheduling priority of the writing thread, from -20 to 19; higher values yield to the training.
constexpr int kNice = 10;

class BackgroundWriter final : public Writer {
 public:
  BackgroundWriter(std::unique_ptr<Communicator> group, std::optional<FolderLock> lock,
                   const WriterOptions& options)
      : group_(std::move(group)), lock_(std::move(lock)), options_(options) {
    thread_ = std::jthread([this] { write_when_told(); });
  }

  ~BackgroundWriter() override {
    {
      MutexLock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    MutexLock lock(mutex_);
    if (untold_) log_warning("the last checkpoint was not written: " + outcome_.error().message);
    group_->close();
  }

  Result<void> save(const Content& content) override {
    // The save's own deadline ends it earlier; the factor 2 allows for a disk that blocks past the
    // deadline.
    TALLY_TRY(idle(Deadline::after(2 * options_.timeout)));
    Result<void> previous;
    {
      MutexLock lock(mutex_);
      if (untold_) previous = outcome_;
    }
    // The thread does not use copy_ before busy_ is set.
    copy_content(content, copy_, memory_);
    {
      MutexLock lock(mutex_);
      untold_ = false;
      busy_ = true;
    }
    changed_.notify_all();
    return previous;
  }

  Result<void> wait(Deadline by) override {
    TALLY_TRY(idle(by));
    MutexLock lock(mutex_);
    untold_ = false;
    return outcome_;
  }

 private:
  // Waits until no save is running.
  Result<void> idle(Deadline by) {
    mutex_.lock();
    while (busy_) {
      const Duration left = by.remaining(SteadyClock().now());
      if (left == Duration::zero()) break;
      // Wait in steps of a second: Deadline::never() is too large for a wait.
      changed_.wait_for(mutex_, std::min<Duration>(left, std::chrono::seconds(1)));
    }
    const bool busy = busy_;
    mutex_.unlock();
    if (busy)
      return make_error(ErrorCode::kTimeout, "the checkpoint of step {} is still being written",
                        copy_.step);
    return {};
  }

  void write_when_told() {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
    bool group_works = true;
    Result<void> outcome;
    for (;;) {
      mutex_.lock();
      while (!busy_ && !over_) changed_.wait(mutex_);
      const bool told = busy_;
      mutex_.unlock();
      if (!told) return;
      // After a failure of the communicator all later saves return the same error.
      if (group_works) outcome = save_together(*group_, options_, copy_, &group_works);
      copy_.pending.reset();
      mutex_.lock();
      outcome_ = outcome;
      untold_ = !outcome.has_value();
      busy_ = false;
      mutex_.unlock();
      changed_.notify_all();
    }
  }

  const std::unique_ptr<Communicator> group_;
  const std::optional<FolderLock> lock_;  // rank 0 only
  const WriterOptions options_;
  // Owned by the caller while not busy_, by the thread while busy_.
  Content copy_;
  std::vector<std::byte> memory_;  // of the pieces of copy_; kept from save to save

  Mutex mutex_;
  ConditionVariable changed_;
  bool busy_ TALLY_GUARDED_BY(mutex_) = false;
  bool over_ TALLY_GUARDED_BY(mutex_) = false;
  bool untold_ TALLY_GUARDED_BY(mutex_) = false;
  Result<void> outcome_ TALLY_GUARDED_BY(mutex_);
  std::jthread thread_;
};

Result<FolderLock> take_folder(const WriterOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) return system_error(options.folder, "cannot be made", error.value());
  TALLY_TRY(FolderLock lock, FolderLock::take(options.folder));
  // The name says that no later checkpoint of another run is left.
  if (!options.run.empty() && !options.begin_step)
    return invalid("WriterOptions::run needs begin_step");
  if (options.begin_step) {
    Retention abandoned;
    for (const std::uint64_t step : list_steps(options.folder))
      if (step > *options.begin_step) abandoned.set_aside.push_back(step);
    TALLY_TRY(retain(options.folder, abandoned));
  }
  TALLY_TRY(store_run(options.folder, options.run));
  TALLY_TRY(sync_folder(options.folder));
  return lock;
}

// Checks that this rank can write to the folder that rank 0 has locked. A folder on a local file
// system does not have rank 0's lock file.
Result<void> check_folder(const WriterOptions& options, const std::string& lock_text) {
  if (options.keep < 1) return invalid(fmt::format("keep = {}: need at least 1", options.keep));
  if (FolderLock::text_in(options.folder) != lock_text)
    return system_failure(
        "{} is not the folder that rank 0 sees: checkpoints need a "
        "file system that all ranks share",
        options.folder.string());
  if (::access(options.folder.c_str(), W_OK) != 0)
    return system_error(options.folder, "cannot be written to", errno);
  return {};
}

}  // namespace

Result<std::unique_ptr<Writer>> Writer::make(Communicator& world, const WriterOptions& options) {
  const Deadline by = Deadline::after(options.timeout);
  TALLY_TRY(std::unique_ptr<Communicator> group, world.split(0, world.rank(), by));
  std::optional<FolderLock> lock;
  Result<void> taken;
  if (group->rank() == 0) {
    auto made = take_folder(options);
    if (made.has_value()) {
      lock = std::move(*made);
    } else {
      taken = made.error();
    }
  }
  TALLY_TRY(agree(*group, taken, by));
  TALLY_TRY(const std::string text, tell(*group, lock ? lock->text() : std::string(), by));
  const Written own{.done = check_folder(options, text)};
  TALLY_TRY(const std::vector<Message> all, gather(*group, encode(own), by));
  const auto checked = decode_written(all);
  TALLY_TRY(agree(*group, checked.has_value() ? Result<void>() : checked.error(), by));
  return std::unique_ptr<Writer>(
      std::make_unique<BackgroundWriter>(std::move(group), std::move(lock), options));
}

}  // namespace tally::checkpoint
