#pragma once
#include <string_view>

namespace tally::process {

// Shows the progress of long work on stderr: a changing line on a terminal, plain lines otherwise.
class Progress final {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The current activity; shown on a terminal only, cut to its width.
  void now(std::string_view text);
  // A stage of the work; shown everywhere.
  void stage(std::string_view text);
  // A line that stays, such as a warning.
  void note(std::string_view text);

 private:
  void erase();
  bool terminal_ = false;
  bool shown_ = false;
};

}  // namespace tally::process
