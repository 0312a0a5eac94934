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

// Sanitizers slow everything down, so what is claimed about time is claimed without them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
inline constexpr milliseconds kLossTime = seconds(8);
inline constexpr milliseconds kSlack = seconds(8);
#else
inline constexpr bool kSanitized = false;
inline constexpr milliseconds kLossTime = seconds(1);
inline constexpr milliseconds kSlack = seconds(2);
#endif
// For what must happen and may take its time.
inline constexpr milliseconds kPatience = seconds(25);

// A process started by a test, with pipes for what it reads and writes. It ends with its owner, and
// with the test program. What a sanitizer says of it fails the test. Threads: one.
class Child final {
 public:
  struct Options {
    std::vector<std::string> command;
    // In place of what our own environment says of a job.
    std::map<std::string, std::string> variables;
  };

  explicit Child(const Options& options);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Nothing once its end was seen: the number may be somebody else's by then.
  void signal(int number);
  // Writes a line to its stdin.
  void tell(const std::string& line);

  // The next line of its stdout that starts with `start`; nothing if it ends or `wait` passes
  // before.
  std::optional<std::string> line(const std::string& start, milliseconds wait = kPatience);
  // The next line of its stdout that has `part` in it.
  std::optional<std::string> line_with(const std::string& part, milliseconds wait = kPatience);
  // Whether its stderr has `text` by then.
  bool complains(const std::string& text, milliseconds wait = kPatience);
  // As waitpid() gives it, once it has ended.
  std::optional<int> wait_status(milliseconds wait = kPatience);
  // Whether it exits with `code` by then.
  bool exits(int code, milliseconds wait = kPatience);

  const std::string& errors() const { return errors_; }
  // All of its stdout so far.
  const std::string& output() const { return output_; }
  // All that it wrote, for the message of a failed test.
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
