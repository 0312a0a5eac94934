#pragma once
#include <optional>
#include <string>
#include <vector>

#include "group/roster.h"

namespace tally::group {

// What a coordinator leaves for one that is started after it on the same address.
struct SavedState {
  std::string job;
  std::uint32_t generation = 1;
  int size = 1;
  std::vector<Member> members;  // those that have come: rank, presence, host, pid, fate

  // Whether nobody is left who could come back.
  bool over() const;
};

// Lines of text, for a person to read; the first names the format.
std::string to_text(const SavedState& state);
// kCorrupt unless to_text() could have made it.
Result<SavedState> state_from_text(const std::string& text);

// Replaces the file at once as a whole; only this user may read it.
Result<void> save_state(const std::string& path, const SavedState& state);
// None if there is no such file.
Result<std::optional<SavedState>> load_state(const std::string& path);

}  // namespace tally::group
