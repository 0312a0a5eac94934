#include "process/progress.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

namespace tally::process {

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { erase(); }

void Progress::now(std::string_view text) {
  if (!terminal_) return;
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::stage(std::string_view text) {
  if (terminal_) {
    now(text);
  } else {
    note(text);
  }
}

void Progress::note(std::string_view text) {
  erase();
  fmt::print(stderr, "{}\n", text);
}

void Progress::erase() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace tally::process
