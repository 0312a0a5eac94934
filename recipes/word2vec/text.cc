#include "recipes/word2vec/text.h"

#include "base/check.h"

namespace tally::word2vec {
namespace {

unsigned char byte_at(std::span<const std::byte> text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool is_space(unsigned char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

bool is_letter(unsigned char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte >= 0x80;
}

char lower_letter(unsigned char byte) {
  return static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte);
}

}  // namespace

bool WordReader::is_part(unsigned char byte) const {
  if (words_ == Words::kPlain) return !is_space(byte);
  if (is_letter(byte)) return true;
  // An apostrophe between letters.
  return byte == '\'' && size_ > 0 && at_ + 1 < text_.size() && is_letter(byte_at(text_, at_ + 1));
}

WordReader::Item WordReader::next() {
  for (;;) {
    size_ = 0;
    for (; at_ < text_.size() && !is_part(byte_at(text_, at_)); ++at_) {
      if (byte_at(text_, at_) != '\n') continue;
      ++at_;
      return Item::kLineEnd;
    }
    if (at_ == text_.size()) return Item::kEnd;
    std::size_t length = 0;
    for (; at_ < text_.size() && is_part(byte_at(text_, at_)); ++at_, ++length) {
      if (length >= kMaxWordBytes) continue;
      const unsigned char byte = byte_at(text_, at_);
      buffer_[size_++] = words_ == Words::kLower ? lower_letter(byte) : static_cast<char>(byte);
    }
    if (length <= kMaxWordBytes) return Item::kWord;
  }
}

std::span<const std::byte> part_of(std::span<const std::byte> text, std::size_t part,
                                   std::size_t parts) {
  TALLY_CHECK(part < parts);
  const auto border = [&](std::size_t number) {
    if (number == 0) return std::size_t{0};
    if (number == parts) return text.size();
    std::size_t at = text.size() / parts * number + text.size() % parts * number / parts;
    while (at < text.size() && !is_space(byte_at(text, at))) ++at;
    return at;
  };
  const std::size_t begin = border(part);
  return text.subspan(begin, border(part + 1) - begin);
}

std::string normalised(std::span<const std::byte> text, Words words, std::size_t words_per_line) {
  TALLY_CHECK(words_per_line > 0);
  std::string result;
  result.reserve(text.size());
  WordReader reader(text, words);
  std::size_t in_line = 0;
  for (;;) {
    const WordReader::Item item = reader.next();
    if (item == WordReader::Item::kEnd) break;
    if (item != WordReader::Item::kWord) continue;
    if (in_line > 0) result += in_line == words_per_line ? '\n' : ' ';
    if (in_line == words_per_line) in_line = 0;
    result += reader.word();
    ++in_line;
  }
  if (!result.empty()) result += '\n';
  return result;
}

}  // namespace tally::word2vec
