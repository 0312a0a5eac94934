// A reader builds an index of the checkpoint when it opens it:
//
//   load_manifest()   tensors, files, sizes and checksums
//   check_size()      the size of each file
//   load_model()      one Extent per tensor, from the header of the model file
//   load_optimizer()  one Extent per piece, from the header of each rank's file; check_cover() then
//                     requires that the pieces cover each state tensor exactly once
//
// A single file has no manifest; load_file() takes its tensors from its header.
//
// read() copies the intersection of the wanted range with each Extent, so any number of ranks can
// read any range. Each read opens its file of a folder again.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/errors.h"
#include "base/file_io.h"
#include "checkpoint/folder.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/state_file.h"
#include "tally/checkpoint.h"

namespace tally::checkpoint {
namespace {

namespace fs = std::filesystem;

// Elements [first, first + count) of a tensor, stored at `offset` of a file.
struct Extent {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::size_t file = 0;  // index in Manifest::files
  std::uint64_t offset = 0;
};

struct StoredTensor {
  TensorInfo info;
  std::uint64_t count = 0;
  std::vector<Extent> extents;  // ordered by `first`, without gaps
};
using Index = std::map<std::string, StoredTensor, std::less<>>;

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

class StoredReader final : public Reader {
 public:
  explicit StoredReader(fs::path path) : folder_(std::move(path)) {}

  Result<void> load_file() {
    TALLY_TRY(File file, File::open_to_read(folder_));
    TALLY_TRY(check_is_no_archive(file, folder_));
    TALLY_TRY(header_, read_header(file, folder_));
    for (const Entry& entry : header_.entries) manifest_.tensors.push_back(entry.tensor);
    file_ = std::move(file);
    return index_model(folder_, header_);
  }

  Result<void> load_folder() {
    TALLY_TRY(load_manifest());
    for (const FileRecord& file : manifest_.files) TALLY_TRY(check_size(folder_, file));
    TALLY_TRY(load_model());
    TALLY_TRY(load_optimizer());
    auto text = read_text(path_of_file(kStateIndex), kMaxStateBytes);
    if (!text.has_value()) return damage(path_of_file(kStateIndex), text.error());
    state_ = *std::move(text);
    return {};
  }

  const fs::path& path() const override { return folder_; }
  std::uint64_t step() const override { return manifest_.step; }
  int ranks() const override { return manifest_.ranks; }
  const std::vector<TensorInfo>& tensors() const override { return manifest_.tensors; }
  const std::vector<TensorInfo>& state_tensors() const override { return manifest_.state_tensors; }
  const std::string& state() const override { return state_; }

  Result<std::string> rank_state(Rank rank) const override {
    if (rank < 0 || static_cast<std::size_t>(rank) >= rank_states_.size())
      return invalid(fmt::format("{}: no state of rank {}, it has those of {} ranks",
                                 folder_.string(), rank, rank_states_.size()));
    const Extent& extent = rank_states_[static_cast<std::size_t>(rank)];
    std::string text(extent.count, '\0');
    TALLY_TRY(read_extent(extent, extent.offset, std::as_writable_bytes(std::span(text))));
    return text;
  }

  Result<void> read(std::string_view tensor, std::uint64_t first,
                    std::span<std::byte> out) const override {
    return read_from(model_, tensor, first, out);
  }
  Result<void> read_state(std::string_view tensor, std::uint64_t first,
                          std::span<std::byte> out) const override {
    return read_from(optimizer_, tensor, first, out);
  }

  Result<void> verify() const override {
    if (file_) return verify_without_checksums();
    for (const FileRecord& file : manifest_.files) TALLY_TRY(verify_file(folder_, file));
    return {};
  }

 private:
  Result<void> verify_without_checksums() const {
    TALLY_TRY(const OpenedHeader again, read_header(*file_, folder_));
    if (again != header_) return corrupt_file(folder_, "has changed since it was opened");
    return file_->read_through([](std::span<const std::byte>) {});
  }

  static constexpr std::size_t kModelIndex = 0;
  static constexpr std::size_t kStateIndex = 1;
  static constexpr std::size_t kFirstOptimizerIndex = 2;

  fs::path path_of_file(std::size_t index) const { return folder_ / manifest_.files[index].name; }

  Result<void> load_manifest() {
    const fs::path path = folder_ / kManifestFile;
    auto text = read_text(path, kMaxManifestBytes);
    if (!text.has_value()) return damage(path, text.error());
    auto manifest = manifest_from_text(*text);
    if (!manifest.has_value()) return corrupt_file(path, manifest.error().message);
    manifest_ = *std::move(manifest);
    if (const auto step = step_of_name(folder_.filename().string());
        step && *step != manifest_.step)
      return corrupt_file(path, fmt::format("is of step {}", manifest_.step));
    return {};
  }

  // An index of all tensors, without extents. Fails if the size of a tensor is invalid.
  static Result<Index> empty_index(const std::vector<TensorInfo>& tensors) {
    Index index;
    for (const TensorInfo& tensor : tensors) {
      TALLY_TRY(const std::uint64_t count, element_count(tensor));
      index[tensor.name] = {.info = tensor, .count = count};
    }
    return index;
  }

  Result<void> load_model() {
    const fs::path path = path_of_file(kModelIndex);
    TALLY_TRY(const File file, File::open_to_read(path));
    TALLY_TRY(const OpenedHeader header, read_header(file, path));
    if (header.entries.size() != manifest_.tensors.size())
      return corrupt_file(path, fmt::format("{} tensors, the manifest has {}",
                                            header.entries.size(), manifest_.tensors.size()));
    return index_model(path, header);
  }

  Result<void> index_model(const fs::path& path, const OpenedHeader& header) {
    TALLY_TRY(model_, empty_index(manifest_.tensors));
    for (const Entry& entry : header.entries) {
      const auto known = model_.find(entry.tensor.name);
      if (known == model_.end() || known->second.info != entry.tensor)
        return corrupt_file(path,
                            fmt::format("tensor {} is not as in the manifest", entry.tensor.name));
      known->second.extents = {{.count = known->second.count,
                                .file = kModelIndex,
                                .offset = header.data_offset + entry.begin}};
    }
    return {};
  }

  Result<void> load_optimizer() {
    TALLY_TRY(optimizer_, empty_index(manifest_.state_tensors));
    rank_states_.resize(static_cast<std::size_t>(ranks()));
    std::map<std::string_view, std::size_t> numbers;
    for (std::size_t i = 0; i < manifest_.state_tensors.size(); ++i)
      numbers[manifest_.state_tensors[i].name] = i;
    std::vector<Range> ranges;
    for (Rank rank = 0; rank < ranks(); ++rank) {
      TALLY_TRY(const std::vector<Range> found, load_pieces(rank, numbers));
      ranges.insert(ranges.end(), found.begin(), found.end());
    }
    if (const auto covered = check_cover(manifest_.state_tensors, std::move(ranges));
        !covered.has_value())
      return corrupt_file(folder_, covered.error().message);
    for (auto& [name, stored] : optimizer_)
      std::sort(stored.extents.begin(), stored.extents.end(),
                [](const Extent& a, const Extent& b) { return a.first < b.first; });
    return {};
  }

  Result<std::vector<Range>> load_pieces(Rank rank,
                                         const std::map<std::string_view, std::size_t>& numbers) {
    const std::size_t index = kFirstOptimizerIndex + static_cast<std::size_t>(rank);
    const fs::path path = path_of_file(index);
    TALLY_TRY(const File file, File::open_to_read(path));
    TALLY_TRY(const OpenedHeader header, read_header(file, path));
    std::vector<Range> ranges;
    bool has_rank_state = false;
    for (const Entry& entry : header.entries) {
      Extent extent{.file = index, .offset = header.data_offset + entry.begin};
      extent.count = (entry.end - entry.begin) / size_of(entry.tensor.type);
      if (entry.tensor.name == kRankState) {
        if (entry.tensor.type != DataType::kUInt8)
          return corrupt_file(path, "the rank state does not have type U8");
        rank_states_[static_cast<std::size_t>(rank)] = extent;
        has_rank_state = true;
        continue;
      }
      const auto piece = parse_piece_name(entry.tensor.name);
      if (!piece.has_value()) return corrupt_file(path, piece.error().message);
      const auto number = numbers.find(piece->tensor);
      if (number == numbers.end() ||
          manifest_.state_tensors[number->second].type != entry.tensor.type)
        return corrupt_file(path, fmt::format("{} is not as in the manifest", entry.tensor.name));
      extent.first = piece->first;
      optimizer_.find(piece->tensor)->second.extents.push_back(extent);
      ranges.push_back(
          {.tensor = number->second, .first = extent.first, .count = extent.count, .rank = rank});
    }
    if (!has_rank_state) return corrupt_file(path, fmt::format("no {}", kRankState));
    return ranges;
  }

  Result<void> read_from(const Index& index, std::string_view tensor, std::uint64_t first,
                         std::span<std::byte> out) const {
    const auto found = index.find(tensor);
    if (found == index.end())
      return invalid(fmt::format("{}: no tensor {}", folder_.string(), tensor));
    const StoredTensor& stored = found->second;
    TALLY_TRY(check_range(folder_, stored.info, first, out.size()));
    const std::uint64_t element_bytes = size_of(stored.info.type);
    const std::uint64_t wanted = out.size() / element_bytes;
    for (const Extent& extent : stored.extents) {
      const std::uint64_t begin = std::max(first, extent.first);
      const std::uint64_t end = std::min(first + wanted, extent.first + extent.count);
      if (begin >= end) continue;
      TALLY_TRY(
          read_extent(extent, extent.offset + (begin - extent.first) * element_bytes,
                      out.subspan((begin - first) * element_bytes, (end - begin) * element_bytes)));
    }
    return {};
  }

  Result<void> read_extent(const Extent& extent, std::uint64_t offset,
                           std::span<std::byte> out) const {
    if (file_) return file_->read_at(offset, out);
    TALLY_TRY(const File file, File::open_to_read(path_of_file(extent.file)));
    return file.read_at(offset, out);
  }

  const fs::path folder_;  // or the single file
  // The single file stays open, so that a file which replaces it does not disturb the reader.
  std::optional<File> file_;
  OpenedHeader header_;  // of the single file
  Manifest manifest_;    // of a single file: only its tensors
  Index model_;
  Index optimizer_;
  std::vector<Extent> rank_states_;
  std::string state_;
};

}  // namespace

Result<std::unique_ptr<Reader>> Reader::open(const fs::path& checkpoint) {
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(checkpoint, ignored);
  if (!is_file && !fs::is_directory(checkpoint, ignored))
    return invalid(fmt::format("{}: no such checkpoint", checkpoint.string()));
  auto reader = std::make_unique<StoredReader>(checkpoint);
  TALLY_TRY(is_file ? reader->load_file() : reader->load_folder());
  return std::unique_ptr<Reader>(std::move(reader));
}

}  // namespace tally::checkpoint
