#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "tally/error.h"

namespace tally {

// A regular file. Errors are kSystem with the path and the system's reason. Threads: safe.
class File final {
 public:
  // Creates an empty file; fails if the file exists.
  static Result<File> create(const std::filesystem::path& path);
  static Result<File> open_to_write(const std::filesystem::path& path);
  static Result<File> open_to_read(const std::filesystem::path& path);

  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // Reads bytes.size() bytes; kCorrupt if the file ends before.
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  Result<void> resize(std::uint64_t bytes) const;
  Result<std::uint64_t> size() const;
  // Written bytes are on the disk when this returns.
  Result<void> sync() const;
  // Passes all bytes to `each` in pieces, from the beginning to the end.
  Result<void> read_through(const std::function<void(std::span<const std::byte>)>& each) const;

 private:
  File(std::filesystem::path path, Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
  Error failed(const char* what) const;

  std::filesystem::path path_;
  Descriptor descriptor_;
};

// Creates a file with this text and syncs it.
Result<void> write_text(const std::filesystem::path& path, const std::string& text);
// The contents of a file. kCorrupt if it has more than `max_bytes`.
Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t max_bytes);

// The names in a folder, in no order; none if it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// Renames a file or a folder within its file system.
Result<void> rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// Created, renamed and removed names in the folder are on the disk when this returns.
Result<void> sync_folder(const std::filesystem::path& folder);

// The error "PATH: WHAT: REASON", with the system's text for errno `number`.
Error system_error(const std::filesystem::path& path, const char* what, int number);

}  // namespace tally
