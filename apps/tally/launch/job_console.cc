#include "apps/tally/launch/job_console.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace tally::launch {
namespace {

constexpr std::size_t kMaxUnwrittenBytes = std::size_t{1} << 20;
// Largest single write.
constexpr std::size_t kMaxChunkBytes = std::size_t{256} << 10;
constexpr std::array<int, 2> kDescriptors = {STDOUT_FILENO, STDERR_FILENO};
// The source of the launcher's own lines; ranks have numbers from 0.
constexpr int kOwnSource = 1 << 29;

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

// Whether a terminal obeys escape sequences.
bool is_dumb() {
  const char* const terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) == "dumb";
}

bool may_be_coloured(int descriptor) {
  const char* const no_colour = std::getenv("NO_COLOR");
  return is_terminal(descriptor) && !is_dumb() && (no_colour == nullptr || *no_colour == '\0');
}

// Whether stdout and stderr are the same terminal.
bool is_one_terminal() {
  struct stat output {
  }, errors{};
  return is_terminal(STDOUT_FILENO) && is_terminal(STDERR_FILENO) &&
         ::fstat(STDOUT_FILENO, &output) == 0 && ::fstat(STDERR_FILENO, &errors) == 0 &&
         output.st_dev == errors.st_dev && output.st_ino == errors.st_ino;
}

// True if everything is written; false if the reader is gone.
bool write_fully(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Another process that shares the stream made it non-blocking.
      pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string prefix_of(Rank rank, const std::string& host, bool coloured) {
  const std::string label =
      host.empty() ? fmt::format("[{}]", rank) : fmt::format("[{} {}]", rank, host);
  if (!coloured) return label + " ";
  // Cyan, green, yellow, magenta, blue, red; then the same in bright.
  constexpr std::array kColours = {36, 32, 33, 35, 34, 31, 96, 92, 93, 95, 94, 91};
  const auto colour = kColours[static_cast<std::size_t>(rank) % kColours.size()];
  return fmt::format("\x1b[{}m{}\x1b[0m ", colour, label);
}

JobConsole::JobConsole(std::string speaker)
    : speaker_(std::move(speaker)),
      watched_{is_terminal(kDescriptors[0]), is_terminal(kDescriptors[1])},
      coloured_{may_be_coloured(kDescriptors[0]), may_be_coloured(kDescriptors[1])},
      same_terminal_(is_one_terminal()),
      room_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      screens_{Screen(watched_[0] && !is_dumb()), Screen(watched_[1] && !is_dumb())},
      writer_([this] { write_all(); }) {}

JobConsole::~JobConsole() {
  MutexLock lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

void JobConsole::show(Stream stream, int source, std::string_view prefix, std::string_view piece) {
  MutexLock lock(mutex_);
  place(stream, source, prefix, piece);
}

void JobConsole::place(Stream stream, int source, std::string_view prefix, std::string_view piece) {
  Screen& screen = screens_[same_terminal_ ? 0 : index(stream)];
  const int number = 2 * source + static_cast<int>(index(stream));
  push(stream, screen.show(number, prefix, piece));
}

void JobConsole::say(std::string_view text) {
  const std::string line = fmt::format("{}: {}\n", speaker_, text);
  MutexLock lock(mutex_);
  place(Stream::kErrors, kOwnSource, "", line);
}

void JobConsole::push(Stream stream, std::string text) {
  if (text.empty()) return;
  waiting_bytes_ += text.size();
  const int descriptor = kDescriptors[index(stream)];
  const bool joins = !waiting_.empty() && waiting_.back().descriptor == descriptor &&
                     waiting_.back().text.size() + text.size() <= kMaxChunkBytes;
  if (joins)
    waiting_.back().text += text;
  else
    waiting_.push_back({.descriptor = descriptor, .text = std::move(text)});
  changed_.notify_all();
}

bool JobConsole::full() const {
  MutexLock lock(mutex_);
  return waiting_bytes_ > kMaxUnwrittenBytes;
}

void JobConsole::note_room() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(room_.descriptor(), &count, sizeof(count));
}

void JobConsole::write_all() {
  std::array<bool, 3> open = {false, true, true};  // by descriptor
  for (;;) {
    std::deque<Chunk> chunks;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !closing_) changed_.wait(mutex_);
      if (waiting_.empty()) return;
      chunks.swap(waiting_);
    }
    for (const Chunk& chunk : chunks) {
      bool& is_open = open[static_cast<std::size_t>(chunk.descriptor)];
      is_open = is_open && write_fully(chunk.descriptor, chunk.text);
      MutexLock lock(mutex_);
      const bool was_full = waiting_bytes_ > kMaxUnwrittenBytes;
      waiting_bytes_ -= chunk.text.size();
      if (!was_full || waiting_bytes_ > kMaxUnwrittenBytes) continue;
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto told = ::write(room_.descriptor(), &one, sizeof(one));
    }
  }
}

}  // namespace tally::launch
