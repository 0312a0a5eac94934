#include "process/temp_dir.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.h"

namespace tally::process {

Result<std::unique_ptr<TempDir>> TempDir::make() {
  const char* base = std::getenv("TMPDIR");
  std::string path =
      fmt::format("{}/tally.XXXXXX", base != nullptr && *base != '\0' ? base : "/tmp");
  if (::mkdtemp(path.data()) == nullptr) {
    return system_failure("cannot make a directory {}: {}", path, strerror(errno));
  }
  return std::unique_ptr<TempDir>(new TempDir(std::move(path)));
}

TempDir::~TempDir() {
  std::error_code ignored;  // errors cannot be handled here
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tally::process
