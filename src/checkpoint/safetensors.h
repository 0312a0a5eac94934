#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"
#include "tally/checkpoint.h"

// The safetensors format: a little-endian u64 N, then N bytes of JSON, then the tensors,
// little-endian and row-major. The tensors fill the rest of the file without gaps.
namespace tally::checkpoint {

inline constexpr std::uint64_t kHeaderLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// kCorrupt: "PATH: MESSAGE".
Error corrupt_file(const std::filesystem::path& path, std::string_view message);

// A tensor in a file. `begin` and `end` are byte offsets from the end of the header.
struct Entry {
  TensorInfo tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool operator==(const Entry&) const = default;
};

// One entry per tensor, in the order of `tensors`. The file stores tensors by descending element
// size, so that each is aligned to its element size. The tensors have passed check_tensors().
std::vector<Entry> lay_out(std::span<const TensorInfo> tensors);

// The length and the JSON header; a multiple of 8 bytes. kInvalid if the header is longer than the
// format allows.
Result<std::string> encode_header(std::span<const Entry> entries, std::string_view format);

// Decodes N from the first 8 bytes of a file of `file_bytes`. kCorrupt if N does not fit the file
// or the format.
Result<std::uint64_t> header_length(std::string_view first_bytes, std::uint64_t file_bytes);

// Parses the entries and returns them ordered by offset. `json` is the header without its length;
// `data_bytes` is the size of the data after it. kCorrupt names the problem: a duplicate name, a
// size that does not match type and shape, a gap, an overlap, or a wrong end.
Result<std::vector<Entry>> parse_header(std::string_view json, std::uint64_t data_bytes);

struct OpenedHeader {
  std::vector<Entry> entries;     // ordered by offset
  std::uint64_t data_offset = 0;  // offset of the tensor data in the file

  bool operator==(const OpenedHeader&) const = default;
};

// Reads and checks the header of a safetensors file. kCorrupt, with the path, if the header is
// invalid.
Result<OpenedHeader> read_header(const File& file, const std::filesystem::path& path);

}  // namespace tally::checkpoint
