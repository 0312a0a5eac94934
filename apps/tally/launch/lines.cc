#include "apps/tally/launch/lines.h"

#include <algorithm>

namespace tally::launch {
namespace {

// The limit for one line of a tail.
constexpr std::size_t kMaxTailLineBytes = 2000;

bool is_shown(char c) { return static_cast<unsigned char>(c) >= 0x20 || c == '\t'; }

}  // namespace

void LineSplitter::add(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of(ends_);
    const bool ends = end != std::string_view::npos;
    const std::string_view part = bytes.substr(0, ends ? end + 1 : bytes.size());
    bytes.remove_prefix(part.size());
    if (held_.empty() && ends) {
      take(part);
      continue;
    }
    held_ += part;
    if (!ends && held_.size() <= kMaxHeldBytes) continue;
    take(held_);
    held_ = {};
  }
}

void LineSplitter::finish(const Take& take) {
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
    if (open_ != kNobody) text += '\n';
    text += prefix;
  }
  text += piece;
  open_ = piece.back() == '\n' ? kNobody : source;
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
    const std::size_t room = kMaxTailLineBytes - std::min(kMaxTailLineBytes, line.size());
    const std::string_view kept = part.substr(0, room);
    line += kept;
    bytes_ += kept.size();
    open_ = !ends;
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
  const std::size_t skipped = lines_.size() - std::min(count, lines_.size());
  std::vector<std::string> result(lines_.begin() + static_cast<std::ptrdiff_t>(skipped),
                                  lines_.end());
  for (std::string& line : result) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::replace_if(
        line.begin(), line.end(), [](char c) { return !is_shown(c); }, '?');
  }
  return result;
}

}  // namespace tally::launch
