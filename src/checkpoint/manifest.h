#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tally/checkpoint.h"

namespace tally::checkpoint {

inline constexpr int kMaxRanks = 99'999;
inline constexpr std::size_t kMaxManifestBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxStateBytes = std::size_t{64} << 20;

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kStateFile = "state.json";
// optimizer-00001-of-00002.safetensors
std::string optimizer_file(Rank rank, int ranks);

struct FileRecord {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  bool operator==(const FileRecord&) const = default;
};

// What a checkpoint is to consist of. `files`: the model's, state.json, and the optimizer's by
// rank.
struct Manifest {
  std::uint64_t step = 0;
  int ranks = 1;
  std::vector<TensorInfo> tensors;
  std::vector<TensorInfo> state_tensors;
  std::vector<FileRecord> files;

  bool operator==(const Manifest&) const = default;
};

// JSON whose first line has the checksum of all that follows it.
std::string to_text(const Manifest& manifest);

// kCorrupt unless to_text() can have written it.
Result<Manifest> manifest_from_text(std::string_view text);

// "1c291ca3", as manifests and messages show a checksum.
std::string checksum_text(std::uint32_t crc32c);

}  // namespace tally::checkpoint
