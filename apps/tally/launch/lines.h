#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::launch {

// Longest part of a line that is waited for before it is passed on. Each stream of each rank may
// hold so much; what a line has taken is given back with its end.
inline constexpr std::size_t kMaxHeldBytes = std::size_t{2} << 20;

// Cuts bytes as they come from one stream into lines. A line that grows beyond kMaxHeldBytes is
// passed on in pieces; all pieces together are the bytes that came. Where lines are `live`, a
// carriage return ends a piece, too.
class LineSplitter final {
 public:
  explicit LineSplitter(bool live = false) : ends_(live ? "\n\r" : "\n") {}

  // Gets each piece; the last of a line has its newline.
  using Take = std::function<void(std::string_view piece)>;

  void add(std::string_view bytes, const Take& take);
  // At the end of the stream: what is held, a line that nobody ended.
  void finish(const Take& take);

 private:
  std::string_view ends_;
  std::string held_;
};

// What several streams write, one after the other, on one screen or into one file: each line with
// the prefix of its stream, and never two streams on one line. A piece that does not end its line
// leaves it open: the same stream goes on there, while another first ends it.
class Screen final {
 public:
  // The bytes to write for a piece of stream `source` (any number that is not negative). An empty
  // piece ends a line of this stream that is open.
  std::string show(int source, std::string_view prefix, std::string_view piece);

 private:
  static constexpr int kNobody = -1;
  int open_ = kNobody;  // whose line is open
};

// The last lines of a stream, bounded in number and bytes, for a report of its end.
class Tail final {
 public:
  Tail(std::size_t lines, std::size_t bytes) : max_lines_(lines), max_bytes_(bytes) {}

  void add(std::string_view piece);
  void clear();
  // Oldest first, without newlines; at most `count`. What cannot be shown is "?".
  std::vector<std::string> last(std::size_t count) const;

 private:
  const std::size_t max_lines_;
  const std::size_t max_bytes_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  bool open_ = false;  // the last line may grow
};

}  // namespace tally::launch
