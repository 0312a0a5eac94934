#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tally/checkpoint.h"

// The files of a checkpoint, and of a snapshot of servers: safetensors files whose sizes and
// checksums are in a manifest.
namespace tally::checkpoint {

struct FileRecord {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  bool operator==(const FileRecord&) const = default;
};

// A whole tensor to write. Borrows its bytes, whose number matches type and shape.
struct TensorBytes {
  TensorInfo info;
  std::span<const std::byte> bytes;
};

// Writes and syncs a new safetensors file; returns its record. An incomplete file stays after an
// error: kInvalid if the header is too long, kSystem with the path and the reason.
Result<FileRecord> write_stored(const std::filesystem::path& path,
                                std::span<const TensorBytes> tensors);

// Compares a file with its record: check_size() the size, verify_file() every byte. kCorrupt, with
// the path, if the file is missing or differs.
Result<void> check_size(const std::filesystem::path& folder, const FileRecord& record);
Result<void> verify_file(const std::filesystem::path& folder, const FileRecord& record);

// The error of opening a file of a checkpoint: a missing file is damage (kCorrupt); other errors
// stay as they are.
Error damage(const std::filesystem::path& path, const Error& error);

// The checksum as in manifests and messages: "1c291ca3".
std::string checksum_text(std::uint32_t crc32c);

}  // namespace tally::checkpoint
