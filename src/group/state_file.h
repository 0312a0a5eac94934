#pragma once
#include <optional>
#include <string>
#include <vector>

#include "group/roster.h"

namespace tally::group {

// The state that a coordinator saves for its successor on the same address.
struct SavedState {
  std::string job;
  std::uint32_t generation = 1;
  int size = 1;
  // Those that have registered: rank, presence, host, pid, fate; of a watched process also
  // host_identity and started.
  std::vector<Member> members;

  // Whether no rank is left that could reconnect.
  bool over() const;
};

// Lines of readable text; the first names the format.
std::string to_text(const SavedState& state);
// kCorrupt unless to_text() could have written it.
Result<SavedState> state_from_text(const std::string& text);

// Replaces the file atomically; only this user may read it.
Result<void> save_state(const std::string& path, const SavedState& state);
// The state in the file, or none if there is no such file.
Result<std::optional<SavedState>> load_state(const std::string& path);

}  // namespace tally::group
