#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "tally/checkpoint.h"

// The folder of all checkpoints of a job. Only rank 0, which holds the lock, changes it.
namespace tally::checkpoint {

// step-0000000120
std::string name_of_step(std::uint64_t step);
std::optional<std::uint64_t> step_of_name(std::string_view name);

// The temporary name of a checkpoint while it is written: .step-0000000120.part
std::filesystem::path part_of(const std::filesystem::path& folder, std::uint64_t step);

// The old checkpoints to remove or rename after step `saved` is published. The newest `keep` up to
// `saved` stay. Checkpoints of later steps belong to a run that was abandoned by resuming an older
// checkpoint. They are set aside, because find_latest() would return them otherwise.
struct Retention {
  std::vector<std::uint64_t> remove;
  std::vector<std::uint64_t> set_aside;
};
Retention decide_retention(const std::vector<std::uint64_t>& steps, std::uint64_t saved, int keep);

// Renames the written checkpoint to its final name and replaces an older one of the same step. The
// change is on disk when this returns.
Result<void> publish(const std::filesystem::path& folder, std::uint64_t step);
// Carries out the decision. Checkpoints that are set aside are renamed to old-step-...; existing
// ones of such names are kept.
Result<void> retain(const std::filesystem::path& folder, const Retention& retention);
// Removes the temporary folders of writers that were killed.
Result<void> remove_leftovers(const std::filesystem::path& folder);

// Stores the name for last_run(), unless it is already there.
Result<void> store_run(const std::filesystem::path& folder, const std::string& run);

// Exclusive lock of the folder for one job. kRefused names the holder.
class FolderLock final {
 public:
  static Result<FolderLock> take(const std::filesystem::path& folder);
  // The content of the lock file, unique to this holder.
  const std::string& text() const { return text_; }
  // The text of the last holder; empty if the file cannot be read.
  static std::string text_in(const std::filesystem::path& folder);

 private:
  FolderLock(Descriptor file, std::string text) : file_(std::move(file)), text_(std::move(text)) {}
  Descriptor file_;
  std::string text_;
};

}  // namespace tally::checkpoint
