#pragma once
#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <thread>

#include "apps/tally/launch/lines.h"
#include "apps/tally/launch/messages.h"
#include "base/descriptor.h"
#include "base/mutex.h"

namespace tally::launch {

// The launcher's stdout and stderr. A thread of its own writes, so that a reader who does not read
// (a pager, a terminal on hold) stops neither the launcher's pings nor its ears; what waits is
// bounded by whoever looks at full(). A stream that nobody reads any more swallows what comes.
// Threads: safe.
class JobConsole final {
 public:
  // `speaker` is who says what say() says.
  explicit JobConsole(std::string speaker);
  // Waits until everything is written.
  ~JobConsole();
  JobConsole(const JobConsole&) = delete;
  JobConsole& operator=(const JobConsole&) = delete;

  // Whether prefixes may be coloured on that stream.
  bool coloured(Stream stream) const { return coloured_[index(stream)]; }

  // A piece as Screen::show() takes it.
  void show(Stream stream, int source, std::string_view prefix, std::string_view piece);
  // "SPEAKER: TEXT" as a line, or several, of its own on stderr.
  void say(std::string_view text);

  // Whether so much waits that no more output of ranks should be fetched.
  bool full() const;
  // Becomes readable when it is no longer full.
  int room_descriptor() const { return room_.descriptor(); }
  // Takes the news of room_descriptor().
  void note_room();

 private:
  static std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }
  void push(Stream stream, std::string text) TALLY_REQUIRES(mutex_);
  void write_all();

  struct Chunk {
    int descriptor = -1;
    std::string text;
  };

  const std::string speaker_;
  const std::array<bool, 2> coloured_;
  Descriptor room_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::array<Screen, 2> screens_ TALLY_GUARDED_BY(mutex_);
  std::deque<Chunk> waiting_ TALLY_GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ TALLY_GUARDED_BY(mutex_) = 0;
  bool closing_ TALLY_GUARDED_BY(mutex_) = false;
  std::jthread writer_;  // last: it uses the above
};

// "[3] ", or with `host` "[3 b] "; in the rank's colour if wanted.
std::string prefix_of(Rank rank, const std::string& host, bool coloured);

}  // namespace tally::launch
