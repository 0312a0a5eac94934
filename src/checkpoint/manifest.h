#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/stored_file.h"
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

// The expected content of a checkpoint. `files` has the model file, state.json, and the optimizer
// file of each rank, in this order.
struct Manifest {
  std::uint64_t step = 0;
  int ranks = 1;
  std::vector<TensorInfo> tensors;
  std::vector<TensorInfo> state_tensors;
  std::vector<FileRecord> files;

  bool operator==(const Manifest&) const = default;
};

// JSON text. Its first line has the checksum of the rest.
std::string to_text(const Manifest& manifest);

// Parses the output of to_text(); kCorrupt for any other text.
Result<Manifest> manifest_from_text(std::string_view text);

// The manifest of other folders, such as snapshots of servers: `format` and the files. The reading
// one is kCorrupt for any text but that of the format.
std::string file_list_text(std::string_view format, std::span<const FileRecord> files);
Result<std::vector<FileRecord>> file_list_from_text(std::string_view text, std::string_view format);

// The text at OBJECT.NAME in a Content::state; empty if there is none.
std::string text_in_state(std::string_view state, const char* object, const char* name);

}  // namespace tally::checkpoint
