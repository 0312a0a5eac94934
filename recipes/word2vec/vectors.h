#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally::word2vec {

// Words and their vectors in the order of the file: the most frequent first.
struct Vectors {
  std::vector<std::string> words;
  std::size_t dimension = 0;
  std::vector<float> values;  // consecutive values of each word

  std::span<const float> of(std::size_t word) const {
    return {values.data() + word * dimension, dimension};
  }
};

// The formats of word2vec. Both begin with a line "WORDS DIMENSION". kText: one line per word, the
// word and its numbers, separated by spaces. kBinary: the word, a space, its float32 values
// (little-endian), a newline.
enum class VectorFormat : std::uint8_t { kText, kBinary };
// Returns the format of a file name: .txt and .vec are text, .bin is binary. kInvalid for others.
Result<VectorFormat> format_of_name(const std::filesystem::path& file);

// Writes the file atomically. kSystem if it cannot be written.
Result<void> save_vectors(const std::filesystem::path& file, VectorFormat format,
                          const std::vector<std::string>& words, std::size_t dimension,
                          const std::function<std::span<const float>(std::size_t)>& vector_of);

// Parses untrusted bytes. The text after the first word determines the format; every line in kText
// and every vector in kBinary is checked. kCorrupt, with the position, if numbers are missing, left
// over or invalid, words are empty, or the size exceeds the header.
Result<Vectors> parse_vectors(std::span<const std::byte> bytes, const std::string& name);

// The same from a file, which may be compressed with gzip.
Result<Vectors> load_vectors(const std::filesystem::path& file);

}  // namespace tally::word2vec
