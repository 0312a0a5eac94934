#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/input_file.h"

namespace tally::data {

enum class TextLevel : std::uint8_t {
  kByte,       // 256 symbols, any file
  kCharacter,  // the distinct characters of a UTF-8 text, in the order of their code points
};

inline constexpr std::int64_t kDefaultContext = 128;
// Limit of distinct characters.
inline constexpr std::size_t kMaxSymbols = 65536;

struct TextOptions {
  TextLevel level = TextLevel::kCharacter;
  std::int64_t context = kDefaultContext;  // symbols per window
  double validation = 0.1;                 // fraction to hold out without test files, at the end
  bool train = true;                       // true: the beginning; false: the held-out end
  int readers = 1;                         // as in ReadOptions
  bool augment = false;                    // add a random offset below `context` to each window
};

// Opens a text as windows. Sample i has `context` symbols as int64 numbers, from symbol i * context
// on; its target is the same window one symbol later. One epoch is one pass over the text. The test
// part is the files `test`; without them it is held out of `train`. The alphabet covers all of
// `train`. Several files are concatenated in the given order. kCorrupt, with the offset, if bytes
// are not UTF-8 (kCharacter), or if a character of `test` is not in the alphabet; kInvalid if the
// part is too short for one window.
Result<std::unique_ptr<Dataset>> open_text(const std::vector<std::filesystem::path>& train,
                                           const std::vector<std::filesystem::path>& test,
                                           const TextOptions& options);

// The same for a text in memory without test files; messages use `name`.
Result<std::unique_ptr<Dataset>> make_text(std::span<const std::byte> text, const std::string& name,
                                           const TextOptions& options);

// The symbols of a text in the alphabet of another text. kCorrupt, with the offset, for a character
// that is not in it.
Result<std::vector<std::uint16_t>> symbols_of(std::span<const std::byte> text,
                                              const std::string& name,
                                              const std::vector<std::string>& alphabet,
                                              TextLevel level);

// Opens the whole of a text with the alphabet of another one.
Result<std::unique_ptr<Dataset>> open_text_like(const std::vector<std::filesystem::path>& files,
                                                const std::vector<std::string>& alphabet,
                                                TextLevel level, std::int64_t context);

// A character of a UTF-8 text. `bytes` is 0 for invalid input: not UTF-8, truncated, an overlong
// form, or a surrogate.
struct Character {
  std::uint32_t code = 0;
  int bytes = 0;
};

// Decodes the character at `offset`, which must be inside the text.
Character character_at(std::span<const std::byte> text, std::size_t offset);
bool is_utf8(std::string_view text);

// Encodes a code point as UTF-8.
std::string utf8_of(std::uint32_t code);

}  // namespace tally::data
