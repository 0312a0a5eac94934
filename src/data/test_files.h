#pragma once
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/dataset.h"

namespace tally::data {

// A temporary folder, removed by the destructor.
class TestFolder final {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes a file and creates its parent folders; returns its path.
  std::filesystem::path write(const std::string& name, const std::string& content) const;
  std::filesystem::path write_gzip(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string gzip_of(const std::string& content);
std::string big_endian(std::initializer_list<std::uint32_t> numbers);

// Reads one sample; fails the test if the dataset returns an error.
struct Sample {
  std::vector<float> input;
  std::vector<float> target;
};
Sample sample_of(const Dataset& dataset, std::uint64_t index, std::uint64_t seed = 1);

// Converts float32 or int64 bytes to floats.
inline std::vector<float> values_of(std::span<const std::byte> bytes, DataType type) {
  std::vector<float> values;
  const std::size_t step = size_of(type);
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    if (type == DataType::kFloat32) {
      float value = 0;
      std::memcpy(&value, &bytes[at], step);
      values.push_back(value);
    } else {
      std::int64_t value = 0;
      std::memcpy(&value, &bytes[at], sizeof value);
      values.push_back(static_cast<float>(value));
    }
  }
  return values;
}

inline TestFolder::TestFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "tally_data_test.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) std::abort();
  path_ = pattern;
}

inline TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

inline std::filesystem::path TestFolder::write(const std::string& name,
                                               const std::string& content) const {
  const std::filesystem::path path = path_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

inline std::filesystem::path TestFolder::write_gzip(const std::string& name,
                                                    const std::string& content) const {
  return write(name, gzip_of(content));
}

inline std::string gzip_of(const std::string& content) {
  z_stream stream{};
  if (::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string packed(::deflateBound(&stream, content.size()), '\0');
  std::string source = content;
  stream.next_in = reinterpret_cast<Bytef*>(source.data());
  stream.avail_in = static_cast<uInt>(source.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (::deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

inline std::string big_endian(std::initializer_list<std::uint32_t> numbers) {
  std::string text;
  for (const std::uint32_t number : numbers)
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(number >> shift);
  return text;
}

inline Sample sample_of(const Dataset& dataset, std::uint64_t index, std::uint64_t seed) {
  const SampleShape& shape = dataset.shape();
  std::vector<std::byte> input(input_bytes(shape));
  std::vector<std::byte> target(target_bytes(shape));
  Rng augment(seed);
  const auto result = dataset.read(index, augment, input, target);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return {values_of(input, shape.input_type), values_of(target, shape.target_type)};
}

}  // namespace tally::data
