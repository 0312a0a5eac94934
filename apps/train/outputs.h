#pragma once
#include <filesystem>
#include <string>

#include "tally/error.h"

namespace tally::app {

// Whether a file can be written there later; nothing is made now. kSystem with `option`, the path
// and what is in the way.
Result<void> check_writable_file(const std::string& option, const std::filesystem::path& file);
// The same of a folder, which may have to be made, with those above it.
Result<void> check_writable_folder(const std::string& option, const std::filesystem::path& folder);

// Puts a text into a file, whole or not at all.
Result<void> write_file(const std::filesystem::path& file, const std::string& text);
// Adds a line at the end of a file.
Result<void> append_line(const std::filesystem::path& file, const std::string& line);

// Where servers put snapshots of what checkpoints do not have; empty if there are no checkpoints.
std::filesystem::path snapshots_folder(const std::string& checkpoint);

}  // namespace tally::app
