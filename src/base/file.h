#pragma once
#include <optional>
#include <string>

namespace tally {

// The contents of a file, or nullopt if it cannot be opened or read to its end: for example a
// folder, or a file in /proc of a process that has ended meanwhile.
std::optional<std::string> file_contents(const std::string& path);

}  // namespace tally
