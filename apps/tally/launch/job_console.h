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

// The launcher's stdout and stderr. A thread of its own writes, so that a reader that does not read
// (a pager, a suspended terminal) blocks neither the launcher's pings nor its messages; callers
// bound the waiting bytes by full(). Output for a reader that is gone is dropped. Threads: safe.
class JobConsole final {
 public:
  // `speaker` is the prefix of say().
  explicit JobConsole(std::string speaker);
  // Waits until everything is written.
  ~JobConsole();
  JobConsole(const JobConsole&) = delete;
  JobConsole& operator=(const JobConsole&) = delete;

  // Whether prefixes may be coloured on that stream.
  bool coloured(Stream stream) const { return coloured_[index(stream)]; }
  // Whether somebody watches that stream, who wants to see lines before they end.
  bool watched(Stream stream) const { return watched_[index(stream)]; }

  // A piece as Screen::show() takes it.
  void show(Stream stream, int source, std::string_view prefix, std::string_view piece);
  // Writes "SPEAKER: TEXT" on stderr, on a line of its own.
  void say(std::string_view text);

  // Whether so many bytes wait that no more output of ranks should be read.
  bool full() const;
  // Becomes readable when it is no longer full.
  int room_descriptor() const { return room_.descriptor(); }
  // Resets room_descriptor().
  void note_room();

 private:
  static std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }
  // Pushes a piece of a source of this stream.
  void place(Stream stream, int source, std::string_view prefix, std::string_view piece)
      TALLY_REQUIRES(mutex_);
  void push(Stream stream, std::string text) TALLY_REQUIRES(mutex_);
  void write_all();

  struct Chunk {
    int descriptor = -1;
    std::string text;
  };

  const std::string speaker_;
  const std::array<bool, 2> watched_;
  const std::array<bool, 2> coloured_;
  const bool same_terminal_;  // stdout and stderr, which then share the first screen
  Descriptor room_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::array<Screen, 2> screens_ TALLY_GUARDED_BY(mutex_);
  std::deque<Chunk> waiting_ TALLY_GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ TALLY_GUARDED_BY(mutex_) = 0;
  bool closing_ TALLY_GUARDED_BY(mutex_) = false;
  std::jthread writer_;  // last: it uses the above
};

// "[3] ", or with `host` "[3 b] "; coloured by rank if `coloured`.
std::string prefix_of(Rank rank, const std::string& host, bool coloured);

}  // namespace tally::launch
