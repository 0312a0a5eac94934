#include "apps/tally/outputs.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::app {
namespace {

namespace fs = std::filesystem;

Error cannot(const std::string& option, const fs::path& path, const std::string& why) {
  return system_failure("{} {}: {}", option, path.string(), why);
}

bool may_write(const fs::path& path) { return ::access(path.c_str(), W_OK) == 0; }

Error unwritten(const fs::path& file) {
  return system_failure("cannot write {}: {}", file.string(), strerror(errno));
}

}  // namespace

Result<void> check_writable_file(const std::string& option, const fs::path& file) {
  std::error_code failed;
  if (fs::is_directory(file, failed)) return cannot(option, file, "this is a folder, not a file");
  const bool exists = fs::exists(file, failed);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!exists && !fs::is_directory(folder, failed))
    return cannot(option, file, fmt::format("there is no folder {}", folder.string()));
  if (!may_write(exists ? file : folder)) return cannot(option, file, strerror(errno));
  return {};
}

Result<void> check_writable_folder(const std::string& option, const fs::path& folder) {
  std::error_code failed;
  fs::path there = fs::absolute(folder, failed).lexically_normal();
  while (!fs::exists(there, failed) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, failed))
    return cannot(option, folder, fmt::format("{} is no folder", there.string()));
  if (!may_write(there))
    return cannot(option, folder,
                  fmt::format("cannot write to {}: {}", there.string(), strerror(errno)));
  return {};
}

Result<void> write_file(const fs::path& file, const std::string& text) {
  fs::path aside = file;
  aside += fmt::format(".{}.part", ::getpid());
  std::ofstream stream(aside, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  std::error_code failed;
  if (stream) fs::rename(aside, file, failed);
  if (stream && !failed) return {};
  if (failed) errno = failed.value();
  const Error error = unwritten(file);
  ::unlink(aside.c_str());
  return error;
}

Result<void> append_line(const fs::path& file, const std::string& line) {
  std::ofstream stream(file, std::ios::binary | std::ios::app);
  stream << line << '\n';
  stream.close();
  if (!stream) return unwritten(file);
  return {};
}

fs::path snapshots_folder(const std::string& checkpoint) {
  if (checkpoint.empty()) return {};
  std::error_code failed;
  return fs::absolute(checkpoint, failed) / "snapshots";
}

}  // namespace tally::app
