#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "tally/checkpoint.h"

// The folder that checkpoints lie in. What changes it is done by rank 0, which has the lock.
namespace tally::checkpoint {

// step-0000000120
std::string name_of_step(std::uint64_t step);
std::optional<std::uint64_t> step_of_name(std::string_view name);

// Where a checkpoint is written before it gets its name: .step-0000000120.part
std::filesystem::path part_of(const std::filesystem::path& folder, std::uint64_t step);

// What becomes of the checkpoints of a folder once `saved` is there. The newest `keep` up to
// `saved` stay. Those beyond it come from a run that was given up for an older checkpoint: they
// would be taken for the newest.
struct Retention {
  std::vector<std::uint64_t> remove;
  std::vector<std::uint64_t> set_aside;
};
Retention decide_retention(const std::vector<std::uint64_t>& steps, std::uint64_t saved, int keep);

// Gives the written checkpoint its name, in place of one of the same step; on the disk when this
// returns.
Result<void> publish(const std::filesystem::path& folder, std::uint64_t step);
// Does what was decided. What is set aside is named old-step-....
Result<void> retain(const std::filesystem::path& folder, const Retention& retention);
// Removes what killed writers have left.
Result<void> remove_leftovers(const std::filesystem::path& folder);

// Holds the folder for one job. kRefused says who has it.
class FolderLock final {
 public:
  static Result<FolderLock> take(const std::filesystem::path& folder);
  // Of the holder: the same for nobody else. What is in the file.
  const std::string& text() const { return text_; }
  // The text of whoever took the lock last; empty if it cannot be read.
  static std::string text_in(const std::filesystem::path& folder);

 private:
  FolderLock(Descriptor file, std::string text) : file_(std::move(file)), text_(std::move(text)) {}
  Descriptor file_;
  std::string text_;
};

}  // namespace tally::checkpoint
