#include "recipes/word2vec/vectors.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "base/errors.h"
#include "data/input_file.h"
#include "recipes/word2vec/vocabulary.h"

namespace tally::word2vec {
namespace {

static_assert(std::endian::native == std::endian::little, "binary vectors are written as they lie");

constexpr std::uint64_t kMaxDimension = 65536;

// Reads a file of vectors from beginning to end.
class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Result<Vectors> parse() {
    TALLY_TRY(read_header());
    const bool text = first_line_is_text();
    // A number takes at least two bytes as text and four in binary.
    const std::uint64_t least = vectors_.dimension * (text ? 2 : 4) + 1;
    if (count_ > (text_.size() - at_) / least)
      return wrong(fmt::format("{} words of {} numbers", count_, vectors_.dimension),
                   fmt::format("{} bytes", text_.size() - at_));
    vectors_.words.reserve(count_);
    vectors_.values.resize(count_ * vectors_.dimension);
    for (std::uint64_t word = 0; word < count_; ++word) {
      TALLY_TRY(read_word());
      float* const values = vectors_.values.data() + word * vectors_.dimension;
      TALLY_TRY(text ? read_text(values) : read_binary(values));
    }
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == ' ')) ++at_;
    if (at_ != text_.size()) return wrong("the end", "more");
    return std::move(vectors_);
  }

 private:
  Error wrong(std::string_view expected, std::string_view found) const {
    return data::corrupt(name_, at_, expected, found);
  }
  Error wrong(std::string_view expected) const {
    if (at_ >= text_.size()) return wrong(expected, "the end");
    std::string found(text_.substr(at_, 12));
    for (char& letter : found)
      if (letter < ' ' || letter > '~') letter = '?';
    return wrong(expected, fmt::format("'{}'", found));
  }

  template <typename T>
  bool take_number(T& value) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    const char* const begin = text_.data() + at_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (code != std::errc()) return false;
    at_ += static_cast<std::size_t>(end - begin);
    return at_ == text_.size() || text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r';
  }

  bool take_line_end() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\r')) ++at_;
    if (at_ == text_.size()) return true;
    if (text_[at_] != '\n') return false;
    ++at_;
    return true;
  }

  Result<void> read_header() {
    std::uint64_t dimension = 0;
    if (!take_number(count_) || !take_number(dimension) || !take_line_end())
      return wrong("a line with the numbers of words and of dimensions");
    if (count_ > kMaxWords || dimension == 0 || dimension > kMaxDimension)
      return wrong(fmt::format("at most {} words of 1 to {} dimensions", kMaxWords, kMaxDimension),
                   fmt::format("{} of {}", count_, dimension));
    vectors_.dimension = dimension;
    return {};
  }

  // Whether the first word is followed by the right number of decimal numbers.
  bool first_line_is_text() {
    const std::size_t begin = at_;
    bool text = read_word().has_value();
    float value = 0;
    for (std::size_t i = 0; text && i < vectors_.dimension; ++i) text = take_number(value);
    text = text && take_line_end();
    at_ = begin;
    vectors_.words.clear();
    return text;
  }

  Result<void> read_word() {
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    const std::size_t space = text_.substr(at_, kMaxBytes + 1).find(' ');
    if (space == std::string_view::npos || space == 0) return wrong("a word and a space");
    vectors_.words.emplace_back(text_.substr(at_, space));
    at_ += space + 1;
    return {};
  }

  Result<void> read_text(float* values) {
    for (std::size_t i = 0; i < vectors_.dimension; ++i)
      if (!take_number(values[i]) || !std::isfinite(values[i])) return wrong("a finite number");
    if (!take_line_end()) return wrong("the end of the line");
    return {};
  }

  Result<void> read_binary(float* values) {
    const std::size_t bytes = vectors_.dimension * sizeof(float);
    if (text_.size() - at_ < bytes)
      return wrong(fmt::format("{} bytes of a vector", bytes),
                   fmt::format("{} bytes", text_.size() - at_));
    std::memcpy(values, text_.data() + at_, bytes);
    if (!std::all_of(values, values + vectors_.dimension, [](float v) { return std::isfinite(v); }))
      return wrong("finite numbers", "others");
    at_ += bytes;
    return {};
  }

  static constexpr std::size_t kMaxBytes = 1000;  // of a word

  const std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::uint64_t count_ = 0;
  Vectors vectors_;
};

Error unwritten(const std::filesystem::path& file, int code) {
  return {.code = ErrorCode::kSystem,
          .message = fmt::format("cannot write {}: {}", file.string(), strerror(code))};
}

}  // namespace

Result<VectorFormat> format_of_name(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".txt" || ending == ".vec") return VectorFormat::kText;
  if (ending == ".bin") return VectorFormat::kBinary;
  return invalid("{}: the name of a file of vectors ends in .txt, .vec (text) or .bin (binary)",
                 file.string());
}

Result<void> save_vectors(const std::filesystem::path& file, VectorFormat format,
                          const std::vector<std::string>& words, std::size_t dimension,
                          const std::function<std::span<const float>(std::size_t)>& vector_of) {
  std::filesystem::path aside = file;
  aside += fmt::format(".{}.part", ::getpid());
  std::ofstream stream(aside, std::ios::binary | std::ios::trunc);
  stream << fmt::format("{} {}\n", words.size(), dimension);
  for (std::size_t word = 0; word < words.size() && stream; ++word) {
    const std::span<const float> values = vector_of(word);
    std::string line = words[word];
    if (format == VectorFormat::kText) {
      for (const float value : values) fmt::format_to(std::back_inserter(line), " {}", value);
    } else {
      line += ' ';
      line.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    }
    stream << line << '\n';
  }
  stream.close();
  std::error_code failed;
  if (!stream) {
    const int code = errno;
    std::filesystem::remove(aside, failed);
    return unwritten(file, code);
  }
  std::filesystem::rename(aside, file, failed);
  if (!failed) return {};
  const int code = failed.value();
  std::filesystem::remove(aside, failed);
  return unwritten(file, code);
}

Result<Vectors> parse_vectors(std::span<const std::byte> bytes, const std::string& name) {
  return Parser({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name).parse();
}

Result<Vectors> load_vectors(const std::filesystem::path& file) {
  TALLY_TRY(const data::Bytes bytes, data::read_file(file));
  return parse_vectors(bytes, file.string());
}

}  // namespace tally::word2vec
