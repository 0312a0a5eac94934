#include "process/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace tally::process {

namespace {

// Columns of the terminal that is stderr; 0 if stderr is none, or one that erases no lines.
std::size_t columns_of_stderr() {
  const char* const kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string_view(kind) == "dumb";
  if (dumb || ::isatty(STDERR_FILENO) != 1) return 0;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

Progress::Progress() : terminal_(columns_of_stderr() > 0) {}

Progress::~Progress() { erase(); }

void Progress::now(std::string_view text) {
  if (!terminal_) return;
  // A line that reached the last column could not be erased.
  const std::size_t columns = std::max<std::size_t>(columns_of_stderr(), 1);
  fmt::print(stderr, "\r\033[K{}", text.substr(0, columns - 1));
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
