// post() puts a message into the inbox. The thread takes the inbox, queues each message in the
// FrameSender of its connection, and writes to all connections in turn:
//
//   post() -> inbox_ -> Output::sender, listed in unsent_ -> socket
//
// The inbox has a lock of its own, because `writing_` is held during system calls. post() makes no
// system call to wake a thread that is awake: it sets posted_ before it reads asleep_, and the
// thread sets asleep_ before it reads posted_, so at least one of them sees the other's store.
#include "net/sender_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/cpu.h"

namespace tally::net {
namespace {

// post() itself writes a message shorter than this: waking the thread would take longer.
constexpr std::size_t kDirectBytes = std::size_t{16} << 10;
// The thread spins for kSpinTime before it sleeps, and reads the clock every kPollsPerClock polls.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr int kPollsPerClock = 64;

}  // namespace

// Holds `writing_` for a caller. The thread unlocks it only for moments, so without `claims_` the
// caller could starve for as long as there is something to write.
class TALLY_SCOPED_CAPABILITY SenderThread::Claim {
 public:
  explicit Claim(SenderThread& owner) TALLY_ACQUIRE(owner.writing_) : owner_(owner) {
    owner_.claims_.fetch_add(1, std::memory_order_relaxed);
    owner_.writing_.lock();
    owner_.claims_.fetch_sub(1, std::memory_order_relaxed);
  }
  ~Claim() TALLY_RELEASE() { owner_.writing_.unlock(); }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  SenderThread& owner_;
};

Result<std::unique_ptr<SenderThread>> SenderThread::start(Options options) {
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.open()) return socket_error("eventfd", errno);
  return std::unique_ptr<SenderThread>(new SenderThread(std::move(options), std::move(event)));
}

SenderThread::SenderThread(Options options, Descriptor event)
    : options_(std::move(options)), event_(std::move(event)), thread_([this] { run(); }) {}

SenderThread::~SenderThread() { join(); }

void SenderThread::post(Output& output, Outgoing& message) {
  message.begin();
  if (message.payload.size() < kDirectBytes && write_now(output, message)) return;
  {
    MutexLock lock(inbox_mutex_);
    inbox_.push_back({&output, &message});
  }
  wake();
}

// False, with the message not queued, if it must queue behind others, the thread is writing, or the
// connection has failed.
bool SenderThread::write_now(Output& output, Outgoing& message) {
  if (posted_.load(std::memory_order_acquire) || !writing_.try_lock()) return false;
  const bool now = !output.listed && !output.sender.failed();
  if (now) {
    output.sender.queue(message);
    output.sender.pump(*output.stream, options_.budget_bytes);
    if (output.has_bytes()) list(output);
  }
  const bool blocked = output.listed;
  writing_.unlock();
  if (output.sender.failed()) options_.notify();
  if (now && blocked) wake();
  return now;
}

void SenderThread::list(Output& output) {
  if (std::exchange(output.listed, true)) return;
  unsent_.push_back(&output);
}

void SenderThread::withdraw(Output& output, Outgoing& message) {
  Claim claim(*this);
  MutexLock lock(inbox_mutex_);
  std::erase_if(inbox_, [&](const Posted& posted) { return posted.message == &message; });
  output.sender.withdraw(message);
}

void SenderThread::close(Output& output) {
  {
    Claim claim(*this);
    MutexLock lock(inbox_mutex_);
    std::erase_if(inbox_, [&](const Posted& posted) {
      if (posted.output == &output) posted.message->finish();
      return posted.output == &output;
    });
    std::erase(unsent_, &output);
    output.listed = false;
    output.sender.abandon();
    output.stream = nullptr;
  }
  // poll() keeps a socket open until it returns, even if its descriptor is closed meanwhile.
  wake();
}

void SenderThread::stop() {
  join();
  Claim claim(*this);
  take_posted();
}

void SenderThread::join() {
  stopping_.store(true);
  wake();
  if (thread_.joinable()) thread_.join();
}

void SenderThread::wake() {
  posted_.store(true);
  if (!asleep_.exchange(false)) return;
  const std::uint64_t once = 1;
  static_cast<void>(::write(event_.descriptor(), &once, sizeof(once)) == sizeof(once));
}

void SenderThread::run() {
  while (!stopping_.load()) {
    if (write_turn()) continue;
    // Spin only if no socket is full: posted_soon() would not see it become writable.
    if (blocked_.size() == 1 && posted_soon()) continue;
    sleep();
  }
}

// Writes to each connection in unsent_ once, and lists full sockets in blocked_. True if a socket
// that is not full has more to write.
bool SenderThread::write_turn() {
  while (claims_.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
  blocked_.assign(1, {.fd = event_.descriptor(), .events = POLLIN, .revents = 0});
  bool more = false;
  bool finished = false;
  {
    MutexLock lock(writing_);
    finished = take_posted();
    std::erase_if(unsent_, [&](Output* output) {
      const auto pumped = output->sender.pump(*output->stream, options_.budget_bytes);
      finished |= pumped.finished;
      output->listed = output->has_bytes();
      if (!output->listed) return true;
      if (pumped.end == Io::State::kBlocked) {
        blocked_.push_back(
            {.fd = output->stream->write_descriptor(), .events = POLLOUT, .revents = 0});
      } else {
        more = true;
      }
      return false;
    });
  }
  if (finished) options_.notify();
  return more;
}

// Queues posted messages. A message to a connection that has failed counts as sent; true if there
// was one.
bool SenderThread::take_posted() {
  if (!posted_.exchange(false)) return false;
  {
    MutexLock lock(inbox_mutex_);
    std::swap(inbox_, taken_);
  }
  bool finished = false;
  for (const auto& [output, message] : taken_) {
    if (output->sender.failed()) {
      message->finish();
      finished = true;
    } else {
      output->sender.queue(*message);
      list(*output);
    }
  }
  taken_.clear();
  return finished;
}

// Spins for kSpinTime; true as soon as posted_ is set.
bool SenderThread::posted_soon() const {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int poll = 0; poll < kPollsPerClock; ++poll) {
      if (posted_.load(std::memory_order_relaxed)) return true;
      spin_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

void SenderThread::sleep() {
  asleep_.store(true);
  if (!posted_.load() && !stopping_.load()) {
    ::poll(blocked_.data(), blocked_.size(), -1);
    if (blocked_.front().revents != 0) {
      std::uint64_t calls = 0;
      static_cast<void>(::read(event_.descriptor(), &calls, sizeof(calls)) == sizeof(calls));
    }
  }
  asleep_.store(false);
}

}  // namespace tally::net
