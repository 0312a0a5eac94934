#include "checkpoint/weights_file.h"

#include <fmt/format.h>

#include <map>

#include "base/errors.h"
#include "base/file_io.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"

namespace tally::checkpoint {
namespace {

namespace fs = std::filesystem;

class WeightsFileReader final : public Reader {
 public:
  WeightsFileReader(fs::path path, File file, OpenedHeader header)
      : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {
    for (const Entry& entry : header_.entries) {
      tensors_.push_back(entry.tensor);
      entries_[entry.tensor.name] = &entry;
    }
  }

  const fs::path& path() const override { return path_; }
  std::uint64_t step() const override { return 0; }
  int ranks() const override { return 1; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const std::vector<TensorInfo>& state_tensors() const override { return none_; }
  const std::string& state() const override { return no_state_; }
  Result<std::string> rank_state(Rank) const override {
    return invalid(fmt::format("{}: a file of weights has no rank state", path_.string()));
  }

  Result<void> read(std::string_view tensor, std::uint64_t first,
                    std::span<std::byte> out) const override {
    const auto found = entries_.find(tensor);
    if (found == entries_.end())
      return invalid(fmt::format("{}: no tensor {}", path_.string(), tensor));
    const Entry& entry = *found->second;
    TALLY_TRY(check_range(path_, entry.tensor, first, out.size()));
    return file_.read_at(header_.data_offset + entry.begin + first * size_of(entry.tensor.type),
                         out);
  }
  Result<void> read_state(std::string_view tensor, std::uint64_t,
                          std::span<std::byte>) const override {
    return invalid(
        fmt::format("{}: a file of weights has no optimizer state {}", path_.string(), tensor));
  }

  // The file has no checksums; the header and the size of the data can be compared again.
  Result<void> verify() const override {
    TALLY_TRY(const OpenedHeader again, read_header(file_, path_));
    if (again != header_) return corrupt_file(path_, "has changed since it was opened");
    return file_.read_through([](std::span<const std::byte>) {});
  }

 private:
  const fs::path path_;
  const File file_;
  const OpenedHeader header_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, const Entry*> entries_;
  const std::vector<TensorInfo> none_;
  const std::string no_state_;
};

// A zip archive begins with "PK"; torch.save writes one.
Result<void> check_is_no_archive(const File& file, const fs::path& path) {
  TALLY_TRY(const std::uint64_t bytes, file.size());
  std::string first(2, '\0');
  if (bytes < first.size()) return {};
  TALLY_TRY(file.read_at(0, std::as_writable_bytes(std::span(first))));
  if (first == "PK")
    return corrupt_file(path,
                        "is a zip archive, as torch.save writes it, and not a safetensors file: "
                        "write it with safetensors.torch.save_file");
  return {};
}

}  // namespace

Result<std::unique_ptr<Reader>> open_weights_file(const fs::path& path) {
  TALLY_TRY(File file, File::open_to_read(path));
  TALLY_TRY(check_is_no_archive(file, path));
  TALLY_TRY(OpenedHeader header, read_header(file, path));
  return std::unique_ptr<Reader>(
      std::make_unique<WeightsFileReader>(path, std::move(file), std::move(header)));
}

}  // namespace tally::checkpoint
