#include "apps/tally/launch/lines.h"

#include <algorithm>

namespace tally::launch {
namespace {

// The limit for one line of a tail.
constexpr std::size_t kMaxTailLineBytes = 2000;

constexpr std::string_view kEraseOpenLine = "\r\x1b[K";

bool is_shown(char c) { return static_cast<unsigned char>(c) >= 0x20 || c == '\t'; }

}  // namespace

void LineSplitter::add(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    std::size_t end = bytes.find_first_of("\n\r");
    const bool ends = end != std::string_view::npos;
    if (ends && bytes[end] == '\r' && bytes.substr(end + 1, 1) == "\n") ++end;
    const std::string_view part = bytes.substr(0, ends ? end + 1 : bytes.size());
    bytes.remove_prefix(part.size());
    if (ends) live_ = part.back() == '\r';
    if (held_.empty() && (ends || live_)) {
      take(part);
      continue;
    }
    held_ += part;
    if (ends || live_ || held_.size() > kMaxHeldBytes) release(take);
  }
}

void LineSplitter::release(const Take& take) {
  if (!held_.empty()) take(held_);
  held_ = {};
}

std::string Screen::show(int source, std::string_view prefix, std::string_view piece) {
  std::string text;
  if (piece.empty()) {
    if (open_ == source) text += '\n';
    if (open_ == source) open_ = kNobody;
    return text;
  }
  if (open_ != source) {
    if (open_ != kNobody) text += live_ && erases_ ? kEraseOpenLine : "\n";
    text += prefix;
    live_ = false;
  } else if (returned_ && piece.front() != '\n') {
    text += prefix;
  }
  text += piece;
  open_ = piece.back() == '\n' ? kNobody : source;
  returned_ = piece.back() == '\r';
  live_ = open_ == source && (live_ || returned_);
  return text;
}

void Tail::add(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t newline = piece.find('\n');
    const bool ends = newline != std::string_view::npos;
    const std::string_view part = piece.substr(0, newline);
    piece.remove_prefix(ends ? newline + 1 : piece.size());
    if (!open_) lines_.emplace_back();
    std::string& line = lines_.back();
    if (line.ends_with('\r') && !part.empty()) {
      bytes_ -= line.size();
      line.clear();
    }
    const std::size_t room = kMaxTailLineBytes - std::min(kMaxTailLineBytes, line.size());
    const std::string_view kept = part.substr(0, room);
    line += kept;
    bytes_ += kept.size();
    open_ = !ends;
    // The exceptions of libtorch have the reason first and then their stack.
    if (ends && line.starts_with("frame #")) {
      bytes_ -= line.size();
      lines_.pop_back();
    }
  }
  while (lines_.size() > max_lines_ || (bytes_ > max_bytes_ && lines_.size() > 1)) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
}

void Tail::clear() {
  lines_.clear();
  bytes_ = 0;
  open_ = false;
}

std::vector<std::string> Tail::last(std::size_t count) const {
  // A line of progress that was to be overwritten is not a line of output.
  const bool overwritten = open_ && lines_.back().ends_with('\r');
  const std::size_t size = lines_.size() - (overwritten ? 1 : 0);
  const auto end = lines_.begin() + static_cast<std::ptrdiff_t>(size);
  std::vector<std::string> result(end - static_cast<std::ptrdiff_t>(std::min(count, size)), end);
  for (std::string& line : result) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::replace_if(
        line.begin(), line.end(), [](char c) { return !is_shown(c); }, '?');
  }
  return result;
}

}  // namespace tally::launch
