#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tally::app {

// The newest checkpoint of a folder. Two values differ if a job has written another one meanwhile.
struct NewestCheckpoint {
  std::uint64_t step = 0;
  std::filesystem::file_time_type written;
  friend bool operator==(const NewestCheckpoint&, const NewestCheckpoint&) = default;
};
// Nothing if the folder has no checkpoints.
std::optional<NewestCheckpoint> newest_checkpoint(const std::string& folder);

// A training that ended before it was complete.
struct EarlyEnd {
  bool interrupted = false;            // by the user; otherwise it failed
  std::string folder;                  // of its checkpoints; empty: it has none
  std::optional<std::uint64_t> saved;  // step that it can continue from
  std::vector<std::string> words;      // of its command line, after `tally train`
};

// Returns the state that is saved, and the command that continues from there, for the user. Empty
// after a failure that left nothing.
std::string continuation_of(const EarlyEnd& end);

// The data decide which commands use the model.
enum class TrainedOn : std::uint8_t {
  kSamples,
  kTexts,
  kMadeData,  // of no file: nothing can be prepared like them
};

// Returns where the model of a training is that ended by itself, for the user: the last step, which
// was saved in `folder`, or how to keep the model for the commands that use it.
std::string kept_text(const std::string& folder, std::uint64_t step, TrainedOn data);

}  // namespace tally::app
