#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace tally::process {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Milliseconds on the clock that all processes of this machine share.
std::int64_t now_ms();

#if defined(TALLY_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Times in tests. A test never claims that something happens within a time which a busy machine can
// miss. It waits for an event for up to kPatience, and sets all timeouts that would cause the same
// event to kNeverSeconds, so that the event can only have the cause which the test is about.
inline constexpr milliseconds kPatience = std::chrono::minutes(2);
inline constexpr int kNeverSeconds = 3600;
inline const std::string kNever = std::to_string(kNeverSeconds);  // for options and variables

// The beginning of a command that ignores SIGTERM. A launcher sends it to the other ranks soon
// after one has ended; on a loaded machine they may not have said yet what they have noticed.
inline const std::vector<std::string> kIgnoringSigterm{"sh", "-c", "trap '' TERM; exec \"$@\"",
                                                       "sh"};

// The factor by which this machine is slower at this moment than an idle one, 1 or more: measured
// by starting processes and by computing.
double slowness();
// `time` multiplied by slowness(): for timeouts that must pass in a test, but not before the
// processes of the test have done their part.
milliseconds scaled(milliseconds time);
// The same as a number of seconds, for options; rounded up, for variables that take whole seconds.
std::string scaled_seconds(milliseconds time);
std::string scaled_whole_seconds(milliseconds time);

// A process started by a test, with pipes for its standard streams. It ends with its owner, and
// with the test program. A sanitizer's report on its stderr fails the test. Threads: one.
class Child final {
 public:
  struct Options {
    std::vector<std::string> command;
    // Added to the test's environment, from which the variables of a job are removed.
    std::map<std::string, std::string> variables;
  };

  explicit Child(const Options& options);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Does nothing once the process was seen to end: its pid may belong to another one by then.
  void signal(int number);
  // Sends SIGSTOP and waits until all threads of the process have stopped.
  void stop();
  // Writes a line to its stdin.
  void tell(const std::string& line);

  // The next line of its stdout that starts with `start`; nothing if its stdout ends or `wait`
  // passes before.
  std::optional<std::string> line(const std::string& start, milliseconds wait = kPatience);
  // The next line of its stdout that contains `part`.
  std::optional<std::string> line_with(const std::string& part, milliseconds wait = kPatience);
  // Whether its stderr contains `text` within `wait`.
  bool complains(const std::string& text, milliseconds wait = kPatience);
  // The status that waitpid() returns; nothing if the process runs on after `wait`.
  std::optional<int> wait_status(milliseconds wait = kPatience);
  // Whether it exits with `code` within `wait`.
  bool exits(int code, milliseconds wait = kPatience);

  const std::string& errors() const { return errors_; }
  // All of its stdout so far.
  const std::string& output() const { return output_; }
  // All of its output, for the message of a failed test.
  std::string transcript();

 private:
  bool pump(milliseconds wait);
  std::optional<std::string> next_line(const std::function<bool(const std::string&)>& wanted,
                                       milliseconds wait);

  pid_t pid_ = -1;
  std::optional<int> status_;
  Descriptor input_;
  Descriptor output_end_;
  Descriptor errors_end_;
  std::string output_;
  std::string errors_;
  std::size_t read_bytes_ = 0;  // of output_, by line()
};

}  // namespace tally::process
