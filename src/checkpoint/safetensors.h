#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/checkpoint.h"

// The safetensors format: u64 little-endian N, N bytes of JSON, then the tensors, little-endian and
// row-major, which tile the rest of the file.
namespace tally::checkpoint {

inline constexpr std::uint64_t kHeaderLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// A tensor in a file. begin and end count from the end of the header.
struct Entry {
  TensorInfo tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// One entry for each tensor, in their order. In the file they lie by falling element size, so that
// each is aligned to its own. The tensors have passed check_tensors().
std::vector<Entry> lay_out(std::span<const TensorInfo> tensors);

// All that stands before the data, its length included; a multiple of 8 bytes. kInvalid if it is
// longer than the format allows.
Result<std::string> encode_header(std::span<const Entry> entries, std::string_view format);

// N, from the first 8 bytes of a file of `file_bytes`. kCorrupt if that cannot be.
Result<std::uint64_t> header_length(std::string_view first_bytes, std::uint64_t file_bytes);

// The entries by their place. `json` is the header without its length, `data_bytes` what the file
// has after it. kCorrupt says what is wrong: a name twice, a type or shape that does not agree with
// the size, a hole, an overlap, an end that is not the file's.
Result<std::vector<Entry>> parse_header(std::string_view json, std::uint64_t data_bytes);

}  // namespace tally::checkpoint
