#pragma once
#include <functional>
#include <string>

namespace tally {

// While one of these lives, SIGQUIT logs its text instead of ending the process; all that live log
// theirs. Leaves the signal alone if the program has a handler of its own. `text` is called from
// another thread. The list of them is global: a signal is.
class SignalDump {
 public:
  explicit SignalDump(std::function<std::string()> text);
  ~SignalDump();
  SignalDump(const SignalDump&) = delete;
  SignalDump& operator=(const SignalDump&) = delete;

  std::string text() const { return text_(); }

 private:
  const std::function<std::string()> text_;
};

}  // namespace tally
