#include "checkpoint/stored_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/errors.h"
#include "base/file_io.h"
#include "checkpoint/safetensors.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::checkpoint {

namespace fs = std::filesystem;

Result<FileRecord> write_stored(const fs::path& path, std::span<const TensorBytes> tensors) {
  std::vector<TensorInfo> infos;
  for (const TensorBytes& tensor : tensors) infos.push_back(tensor.info);
  const std::vector<Entry> entries = lay_out(infos);
  TALLY_TRY(const std::string header, encode_header(entries, "tally"));
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return entries[a].begin < entries[b].begin;
  });

  TALLY_TRY(const File file, File::create(path));
  FileRecord record{.name = path.filename().string()};
  const auto append = [&](std::span<const std::byte> part) -> Result<void> {
    TALLY_TRY(file.write_at(record.bytes, part));
    record.bytes += part.size();
    record.crc32c = kernel::crc32c(part, record.crc32c);
    return {};
  };
  TALLY_TRY(append(std::as_bytes(std::span(header))));
  for (const std::size_t index : order) {
    TALLY_CHECK(entries[index].end - entries[index].begin == tensors[index].bytes.size());
    TALLY_TRY(append(tensors[index].bytes));
  }
  TALLY_TRY(file.sync());
  return record;
}

Result<void> check_size(const fs::path& folder, const FileRecord& record) {
  const fs::path path = folder / record.name;
  const auto file = File::open_to_read(path);
  if (!file.has_value()) return damage(path, file.error());
  TALLY_TRY(const std::uint64_t bytes, file->size());
  if (bytes != record.bytes)
    return corrupt_file(path, fmt::format("expected {} bytes, found {}", record.bytes, bytes));
  return {};
}

Result<void> verify_file(const fs::path& folder, const FileRecord& record) {
  TALLY_TRY(check_size(folder, record));
  TALLY_TRY(const File file, File::open_to_read(folder / record.name));
  std::uint32_t found = 0;
  TALLY_TRY(file.read_through(
      [&found](std::span<const std::byte> bytes) { found = kernel::crc32c(bytes, found); }));
  if (found != record.crc32c)
    return corrupt_file(folder / record.name,
                        fmt::format("checksum (CRC32C) expected {}, found {}",
                                    checksum_text(record.crc32c), checksum_text(found)));
  return {};
}

Error damage(const fs::path& path, const Error& error) {
  std::error_code ignored;
  if (error.code == ErrorCode::kSystem && !fs::exists(path, ignored))
    return corrupt_file(path, "is missing");
  return error;
}

std::string checksum_text(std::uint32_t crc32c) { return fmt::format("{:08x}", crc32c); }

}  // namespace tally::checkpoint
