#pragma once
#include <string>
#include <string_view>

namespace tally::process {

// Tells on stderr how far a long piece of work is: one line that changes on a terminal, plain lines
// where stderr goes to a file.
class Progress final {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done now; shown on a terminal only.
  void now(std::string_view text);
  // A stage has been reached; shown everywhere.
  void stage(std::string_view text);
  // A line that stays, such as a warning.
  void note(std::string_view text);

 private:
  void erase();
  bool terminal_ = false;
  bool shown_ = false;
};

}  // namespace tally::process
