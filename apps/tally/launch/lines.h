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
// pieces, and a line that overwrites itself, such as a progress bar, at each carriage return and
// then as its bytes arrive. All pieces together are the bytes of the stream.
class LineSplitter final {
 public:
  // Receives each piece; the last piece of a line ends with its newline.
  using Take = std::function<void(std::string_view piece)>;

  void add(std::string_view bytes, const Take& take);
  // Passes on the beginning of a line that has not ended: at the end of the stream, or because the
  // rest may not come soon.
  void release(const Take& take);
  // Whether the beginning of a line is held back.
  bool holds() const { return !held_.empty(); }

 private:
  std::string held_;
  bool live_ = false;  // the current line has overwritten itself
};

// Combines several streams for one screen or file: each line has the prefix of its stream, and two
// streams never share a line. A piece without a newline leaves its line open: the same stream
// continues it, with a new prefix after a carriage return, while another stream first ends it. An
// open line that has overwritten itself is erased instead where the screen `erases`: of all lines
// of progress, the latest is shown.
class Screen final {
 public:
  explicit Screen(bool erases = false) : erases_(erases) {}

  // Returns the bytes to write for a piece of stream `source`, a number from 0. An empty piece ends
  // an open line of this stream.
  std::string show(int source, std::string_view prefix, std::string_view piece);

 private:
  static constexpr int kNobody = -1;
  bool erases_;
  int open_ = kNobody;     // the stream whose line is open
  bool live_ = false;      // the open line has overwritten itself
  bool returned_ = false;  // the last byte was a carriage return
};

// The last lines of a stream, bounded in number and bytes, for a report of its end. A piece that
// ends with a carriage return is overwritten by the next one.
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
