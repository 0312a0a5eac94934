#pragma once
#include <optional>
#include <string>

namespace tally {

// All that is in a file. Nothing if it cannot be opened or read to its end: it is a folder, or what
// the kernel tells of a process that has ended meanwhile.
std::optional<std::string> file_contents(const std::string& path);

}  // namespace tally
