#pragma once
#include <filesystem>
#include <string>

#include "tally/error.h"

namespace tally::app {

// Checks that a file can be written later, without creating it. kSystem with `option`, the path and
// the reason.
Result<void> check_writable_file(const std::string& option, const std::filesystem::path& file);
// The same for a folder, which may have to be created together with its parents.
Result<void> check_writable_folder(const std::string& option, const std::filesystem::path& folder);

// Writes a file atomically.
Result<void> write_file(const std::filesystem::path& file, const std::string& text);
// Appends a line to a file.
Result<void> append_line(const std::filesystem::path& file, const std::string& line);

// Returns the folder for snapshots of servers; empty if there are no checkpoints.
std::filesystem::path snapshots_folder(const std::string& checkpoint);

}  // namespace tally::app
