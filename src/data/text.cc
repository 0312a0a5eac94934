#include "data/text.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "data/preprocessing.h"

namespace tally::data {
namespace {

// A text as indices in its alphabet.
struct Symbols {
  std::vector<std::uint16_t> text;
  std::vector<std::string> alphabet;
};

Symbols bytes_as_symbols(std::span<const std::byte> text) {
  Symbols result;
  result.text.reserve(text.size());
  for (const std::byte byte : text) result.text.push_back(std::to_integer<std::uint16_t>(byte));
  for (int value = 0; value < 256; ++value)
    result.alphabet.emplace_back(1, static_cast<char>(value));
  return result;
}

Result<Symbols> characters_as_symbols(std::span<const std::byte> text, const std::string& name) {
  // Number characters in order of appearance first, then renumber them by code point.
  std::unordered_map<std::uint32_t, std::uint16_t> numbers;
  std::vector<std::uint32_t> codes;
  Symbols result;
  result.text.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.bytes == 0) {
      return corrupt(name, at, "a character in UTF-8 (--bytes reads any text)",
                     fmt::format("byte {:#04x}", std::to_integer<int>(text[at])));
    }
    const auto [entry, fresh] =
        numbers.try_emplace(character.code, static_cast<std::uint16_t>(codes.size()));
    if (fresh) codes.push_back(character.code);
    if (codes.size() > kMaxSymbols) {
      return make_error(ErrorCode::kExhausted,
                        "{}: offset {}: more than {} distinct characters: --bytes reads it", name,
                        at, kMaxSymbols);
    }
    result.text.push_back(entry->second);
    at += static_cast<std::size_t>(character.bytes);
  }
  std::vector<std::uint32_t> sorted = codes;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::uint16_t> final_number(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i)
    final_number[i] = static_cast<std::uint16_t>(
        std::lower_bound(sorted.begin(), sorted.end(), codes[i]) - sorted.begin());
  for (std::uint16_t& symbol : result.text) symbol = final_number[symbol];
  for (const std::uint32_t code : sorted) result.alphabet.push_back(utf8_of(code));
  return result;
}

// Numbers the symbols of a text by its own alphabet.
Result<Symbols> own_symbols_of(std::span<const std::byte> text, const std::string& name,
                               TextLevel level) {
  if (level == TextLevel::kByte) return bytes_as_symbols(text);
  return characters_as_symbols(text, name);
}

class TextDataset final : public Dataset {
 public:
  TextDataset(Symbols symbols, std::uint64_t context, const TextOptions& options)
      : text_(std::move(symbols.text)),
        alphabet_(std::move(symbols.alphabet)),
        level_(options.level),
        context_(context),
        augment_(options.augment) {
    shape_ = {.input = {static_cast<std::int64_t>(context)},
              .input_type = DataType::kInt64,
              .target = {static_cast<std::int64_t>(context)},
              .target_type = DataType::kInt64};
  }

  std::uint64_t size() const override { return (text_.size() - 1) / context_; }
  const SampleShape& shape() const override { return shape_; }
  std::vector<std::string> classes() const override { return alphabet_; }
  Preprocessing preprocessing() const override { return {shape_, alphabet_, TextEncoding{level_}}; }

  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    TALLY_CHECK(index < size() && input.size() == context_ * 8 && target.size() == context_ * 8);
    std::uint64_t begin = index * context_;
    if (augment_) begin = std::min(begin + augment.below(context_), text_.size() - 1 - context_);
    for (std::uint64_t i = 0; i < context_; ++i) {
      const std::int64_t symbol = text_[begin + i];
      const std::int64_t following = text_[begin + i + 1];
      std::memcpy(&input[i * 8], &symbol, 8);
      std::memcpy(&target[i * 8], &following, 8);
    }
    return {};
  }

 private:
  std::vector<std::uint16_t> text_;
  std::vector<std::string> alphabet_;
  TextLevel level_;
  std::uint64_t context_;
  bool augment_;
  SampleShape shape_;
};

Result<std::unique_ptr<Dataset>> windows_of(Symbols symbols, const std::string& name,
                                            std::uint64_t total, const TextOptions& options) {
  const auto context = static_cast<std::uint64_t>(options.context);
  symbols.text.shrink_to_fit();
  if (symbols.text.size() <= context) {
    return invalid(fmt::format(
        "{}: its {} part has {} symbols of {}, too few for a window of {} and one more", name,
        options.train ? "training" : "validation", symbols.text.size(), total, context));
  }
  return std::unique_ptr<Dataset>(
      std::make_unique<TextDataset>(std::move(symbols), context, options));
}

struct WholeText {
  Bytes bytes;
  std::string name;
};

// Reads and concatenates the files.
Result<WholeText> read_texts(const std::vector<std::filesystem::path>& files,
                             const TextOptions& options) {
  WholeText whole;
  if (files.size() == 1) {
    whole.name = files[0].string();
    TALLY_TRY(whole.bytes, read_file(files[0], {.readers = options.readers}));
    return whole;
  }
  // Check each file separately, so that an error names the file.
  whole.name =
      fmt::format("{} files from {} on", files.size(), files.empty() ? "none" : files[0].string());
  for (const std::filesystem::path& file : files) {
    TALLY_TRY(const Bytes text, read_file(file, {.readers = options.readers}));
    TALLY_TRY(own_symbols_of(text, file.string(), options.level));
    if (whole.bytes.size() + text.size() > kMaxFileBytes)
      return make_error(ErrorCode::kExhausted, "{}: the texts so far have more than {} bytes",
                        file.string(), kMaxFileBytes);
    whole.bytes.insert(whole.bytes.end(), text.begin(), text.end());
  }
  return whole;
}

Result<void> check_context(const TextOptions& options) {
  if (options.context >= 1) return {};
  return invalid(fmt::format("a context of {} symbols: at least 1", options.context));
}

}  // namespace

Result<std::unique_ptr<Dataset>> make_text(std::span<const std::byte> text, const std::string& name,
                                           const TextOptions& options) {
  TALLY_TRY(check_context(options));
  if (!(options.validation >= 0 && options.validation < 1))
    return invalid(fmt::format("a validation share of {}: from 0 to below 1", options.validation));
  TALLY_TRY(Symbols symbols, own_symbols_of(text, name, options.level));
  const std::uint64_t total = symbols.text.size();
  const std::uint64_t held_out =
      static_cast<std::uint64_t>(static_cast<double>(total) * options.validation);
  const auto cut = symbols.text.begin() + static_cast<std::ptrdiff_t>(total - held_out);
  options.train ? symbols.text.erase(cut, symbols.text.end())
                : symbols.text.erase(symbols.text.begin(), cut);
  return windows_of(std::move(symbols), name, total, options);
}

Result<std::unique_ptr<Dataset>> open_text(const std::vector<std::filesystem::path>& train,
                                           const std::vector<std::filesystem::path>& test,
                                           const TextOptions& options) {
  TALLY_TRY(check_context(options));
  TALLY_TRY(const WholeText whole, read_texts(train, options));
  if (test.empty()) return make_text(whole.bytes, whole.name, options);
  TALLY_TRY(Symbols symbols, own_symbols_of(whole.bytes, whole.name, options.level));
  if (!options.train) return open_text_like(test, symbols.alphabet, options.level, options.context);
  const std::uint64_t total = symbols.text.size();
  return windows_of(std::move(symbols), whole.name, total, options);
}

Result<std::vector<std::uint16_t>> symbols_of(std::span<const std::byte> text,
                                              const std::string& name,
                                              const std::vector<std::string>& alphabet,
                                              TextLevel level) {
  std::unordered_map<std::string, std::uint16_t> number_of;
  for (const std::string& symbol : alphabet)
    number_of.emplace(symbol, static_cast<std::uint16_t>(number_of.size()));
  std::vector<std::uint16_t> symbols;
  symbols.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const int bytes = level == TextLevel::kByte ? 1 : character_at(text, at).bytes;
    if (bytes == 0)
      return corrupt(name, at, "a character in UTF-8",
                     fmt::format("byte {:#04x}", std::to_integer<int>(text[at])));
    const std::string symbol(reinterpret_cast<const char*>(&text[at]),
                             static_cast<std::size_t>(bytes));
    const auto found = number_of.find(symbol);
    if (found == number_of.end())
      return corrupt(
          name, at,
          fmt::format("one of the {} characters that the model was trained on", alphabet.size()),
          fmt::format("'{}'", symbol));
    symbols.push_back(found->second);
    at += static_cast<std::size_t>(bytes);
  }
  return symbols;
}

Result<std::unique_ptr<Dataset>> open_text_like(const std::vector<std::filesystem::path>& files,
                                                const std::vector<std::string>& alphabet,
                                                TextLevel level, std::int64_t context) {
  Symbols all{.text = {}, .alphabet = alphabet};
  for (const std::filesystem::path& file : files) {
    TALLY_TRY(const Bytes text, read_file(file));
    TALLY_TRY(const auto symbols, symbols_of(text, file.string(), alphabet, level));
    all.text.insert(all.text.end(), symbols.begin(), symbols.end());
  }
  if (all.text.size() <= static_cast<std::size_t>(context))
    return invalid(fmt::format("{} has {} symbols, too few for a window of {} and one more",
                               files.empty() ? "none" : files.front().string(), all.text.size(),
                               context));
  return std::unique_ptr<Dataset>(std::make_unique<TextDataset>(
      std::move(all), static_cast<std::uint64_t>(context), TextOptions{.level = level}));
}

Character character_at(std::span<const std::byte> text, std::size_t offset) {
  const auto byte_at = [&text](std::size_t at) { return std::to_integer<std::uint32_t>(text[at]); };
  const std::uint32_t first = byte_at(offset);
  if (first < 0x80) return {first, 1};
  // The first byte gives the length. A code below `least` has a shorter form, so it is invalid
  // here.
  const int bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  const std::uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  if (first < 0xC0 || first >= 0xF8) return {};
  if (text.size() - offset < static_cast<std::size_t>(bytes)) return {};
  std::uint32_t code = first & (0x7FU >> bytes);
  for (int i = 1; i < bytes; ++i) {
    const std::uint32_t next = byte_at(offset + static_cast<std::size_t>(i));
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < least || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

bool is_utf8(std::string_view text) {
  if (std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; })) return true;
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t at = 0; at < bytes.size();) {
    const int length = character_at(bytes, at).bytes;
    if (length == 0) return false;
    at += static_cast<std::size_t>(length);
  }
  return true;
}

std::string utf8_of(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) {
    return static_cast<char>(static_cast<unsigned char>(value));
  };
  if (code < 0x80) return {byte(code)};
  const auto more = [&](int shift) { return byte(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x800) return {byte(0xC0 | code >> 6), more(0)};
  if (code < 0x10000) return {byte(0xE0 | code >> 12), more(6), more(0)};
  return {byte(0xF0 | code >> 18), more(12), more(6), more(0)};
}

}  // namespace tally::data
