#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/input_file.h"

namespace tally::data {

enum class TextLevel : std::uint8_t {
  kByte,       // 256 symbols, any file
  kCharacter,  // the distinct characters of a UTF-8 text, in the order of their code points
};

inline constexpr std::int64_t kDefaultContext = 128;
// More distinct characters than this are refused.
inline constexpr std::size_t kMaxSymbols = 65536;

struct TextOptions {
  TextLevel level = TextLevel::kCharacter;
  std::int64_t context = kDefaultContext;  // symbols of a window
  double validation = 0.1;                 // this share of the text, its end, is held out
  bool train = true;                       // the beginning; otherwise the end
  bool augment = false;                    // windows begin up to `context` symbols later, by chance
};

// A text as windows: sample i has `context` symbols as int64 numbers, from symbol i * context on,
// and as its target the same one further: one epoch is one pass over the text. The alphabet is of
// all of the text. Several files are read as one, in the order given. kCorrupt, with the offset,
// where bytes are not UTF-8 (kCharacter); kInvalid if the part is too short for one window.
Result<std::unique_ptr<Dataset>> open_text(const std::vector<std::filesystem::path>& files,
                                           const TextOptions& options);

// One text from memory; `name` stands in messages.
Result<std::unique_ptr<Dataset>> make_text(std::span<const std::byte> text, const std::string& name,
                                           const TextOptions& options);

}  // namespace tally::data
