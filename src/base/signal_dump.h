#pragma once
#include <functional>
#include <string>

namespace tally {

// While an object lives, SIGQUIT logs its text instead of ending the process; all living objects
// log theirs. A handler that the program has installed itself stays in place. `text` is called from
// another thread. The list of objects is global, because a signal is.
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
