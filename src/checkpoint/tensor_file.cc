#include "checkpoint/tensor_file.h"

#include <unistd.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "base/file_io.h"
#include "base/units.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"

namespace tally::checkpoint {
namespace {

namespace fs = std::filesystem;

// A temporary name in the same folder, unique to this process.
fs::path aside_of(const fs::path& path) {
  fs::path aside = path;
  aside += fmt::format(".{}.part", ::getpid());
  return aside;
}

Result<void> write_all(const fs::path& path, const std::string& header,
                       std::span<const Entry> entries,
                       const std::function<Result<void>(const WriteRange&)>& fill) {
  TALLY_TRY(const File file, File::create(path));
  TALLY_TRY(file.write_at(0, std::as_bytes(std::span(header))));
  const WriteRange write = [&](std::size_t tensor, std::uint64_t first,
                               std::span<const std::byte> bytes) {
    const Entry& entry = entries[tensor];
    const std::uint64_t begin = entry.begin + first * size_of(entry.tensor.type);
    TALLY_CHECK(begin + bytes.size() <= entry.end);
    return file.write_at(header.size() + begin, bytes);
  };
  TALLY_TRY(fill(write));
  return file.sync();
}

}  // namespace

Result<void> write_tensors(const fs::path& path, std::span<const TensorInfo> tensors,
                           std::string_view format,
                           const std::function<Result<void>(const WriteRange&)>& fill) {
  TALLY_TRY(check_tensors(tensors));
  const std::vector<Entry> entries = lay_out(tensors);
  TALLY_TRY(const std::string header, encode_header(entries, format));
  const fs::path aside = aside_of(path);
  std::error_code failed;
  fs::remove(aside, failed);  // left by an earlier process with the same id
  const auto written = write_all(aside, header, entries, fill);
  if (written) fs::rename(aside, path, failed);
  if (written && !failed) return {};
  const Error error =
      written ? system_error(path, "cannot be renamed to its final name", failed.value())
              : written.error();
  fs::remove(aside, failed);
  return error;
}

Result<void> write_float_tensors(const fs::path& path, std::span<const FloatTensor> tensors,
                                 std::string_view format) {
  std::vector<TensorInfo> infos;
  for (const FloatTensor& tensor : tensors)
    infos.push_back({.name = tensor.name, .type = DataType::kFloat32, .shape = tensor.shape});
  return write_tensors(path, infos, format, [&](const WriteRange& write) -> Result<void> {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      TALLY_CHECK(*element_count(infos[i]) == tensors[i].values.size());
      TALLY_TRY(write(i, 0, std::as_bytes(std::span(tensors[i].values))));
    }
    return {};
  });
}

Result<std::vector<FloatTensor>> read_float_tensors(const fs::path& path, std::uint64_t max_bytes) {
  TALLY_TRY(const File file, File::open_to_read(path));
  TALLY_TRY(const std::uint64_t bytes, file.size());
  if (bytes > max_bytes)
    return invalid(fmt::format("{}: {}, limit {}", path.string(), format_bytes(bytes),
                               format_bytes(max_bytes)));
  TALLY_TRY(OpenedHeader header, read_header(file, path));
  std::vector<FloatTensor> tensors;
  for (Entry& entry : header.entries) {
    if (entry.tensor.type != DataType::kFloat32)
      return corrupt(fmt::format("{}: {} is not float32", path.string(), entry.tensor.name));
    FloatTensor tensor{.name = std::move(entry.tensor.name),
                       .shape = std::move(entry.tensor.shape),
                       .values = std::vector<float>((entry.end - entry.begin) / sizeof(float))};
    TALLY_TRY(file.read_at(header.data_offset + entry.begin,
                           std::as_writable_bytes(std::span(tensor.values))));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace tally::checkpoint
