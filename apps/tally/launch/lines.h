#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::launch {

// Longest part of a line that is held back until the line ends. Each stream of each rank may hold
// this much; the memory is released at the end of the line.
inline constexpr std::size_t kMaxHeldBytes = std::size_t{2} << 20;

// Splits the bytes of one stream into lines. A line longer than kMaxHeldBytes is passed on in
// pieces; all pieces together are the bytes of the stream. With `live`, a carriage return also ends
// a piece.
class LineSplitter final {
 public:
  explicit LineSplitter(bool live = false) : ends_(live ? "\n\r" : "\n") {}

  // Receives each piece; the last piece of a line ends with its newline.
  using Take = std::function<void(std::string_view piece)>;

  void add(std::string_view bytes, const Take& take);
  // At the end of the stream: passes on a last line without a newline.
  void finish(const Take& take);

 private:
  std::string_view ends_;
  std::string held_;
};

// Combines several streams for one screen or file: each line has the prefix of its stream, and two
// streams never share a line. A piece without a newline leaves its line open: the same stream
// continues it, while another stream first ends it.
class Screen final {
 public:
  // Returns the bytes to write for a piece of stream `source`, a number from 0. An empty piece ends
  // an open line of this stream.
  std::string show(int source, std::string_view prefix, std::string_view piece);

 private:
  static constexpr int kNobody = -1;
  int open_ = kNobody;  // the stream whose line is open
};

// The last lines of a stream, bounded in number and bytes, for a report of its end.
class Tail final {
 public:
  Tail(std::size_t lines, std::size_t bytes) : max_lines_(lines), max_bytes_(bytes) {}

  void add(std::string_view piece);
  void clear();
  // Returns at most `count` lines, oldest first, without newlines. Unprintable characters are "?".
  std::vector<std::string> last(std::size_t count) const;

 private:
  const std::size_t max_lines_;
  const std::size_t max_bytes_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  bool open_ = false;  // the last line may grow
};

}  // namespace tally::launch
