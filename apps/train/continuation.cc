#include "apps/train/continuation.h"

#include <fmt/format.h>

#include "apps/tally/launch/remote.h"
#include "tally/checkpoint.h"

namespace tally::app {

std::optional<NewestCheckpoint> newest_checkpoint(const std::string& folder) {
  const auto steps = checkpoint::list_steps(folder);
  if (steps.empty()) return std::nullopt;
  std::error_code failed;
  return NewestCheckpoint{steps.back(), std::filesystem::last_write_time(
                                            checkpoint::path_of(folder, steps.back()), failed)};
}

std::string continuation_of(const EarlyEnd& end) {
  if (!end.saved) {
    if (!end.interrupted) return "";
    if (end.folder.empty())
      return "nothing was saved: a training with --checkpoint DIR is saved when it is interrupted";
    return fmt::format("nothing was saved in {}", end.folder);
  }
  std::string command = "tally train";
  for (const std::string& word : end.words)
    if (!word.starts_with("--resume")) command += fmt::format(" {}", launch::quoted(word));
  return fmt::format("step {} is saved in {}; {}this continues from there:\n  {} --resume",
                     *end.saved, end.folder, end.interrupted ? "" : "once the cause is fixed, ",
                     command);
}

std::string kept_text(const std::string& folder, std::uint64_t step, TrainedOn data) {
  if (!folder.empty()) return fmt::format("step {} is saved in {}", step, folder);
  std::string commands = "`tally predict` and `tally export`";
  if (data == TrainedOn::kTexts) commands = "`tally generate` and `tally export`";
  if (data == TrainedOn::kMadeData) commands = "`tally eval`";
  return fmt::format("the model was not kept; --checkpoint DIR keeps it for {}", commands);
}

}  // namespace tally::app
