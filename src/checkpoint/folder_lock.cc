#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "base/file_io.h"
#include "checkpoint/folder.h"

namespace tally::checkpoint {
namespace {

constexpr const char* kLockFile = ".lock";
constexpr std::uint64_t kMaxLockBytes = 1024;

std::string own_text() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  // The time keeps the text unique when the system reuses a process id.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("process {} on {} since {}\n", ::getpid(), host.data(),
                     std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

std::string FolderLock::text_in(const std::filesystem::path& folder) {
  const auto text = read_text(folder / kLockFile, kMaxLockBytes);
  return text.has_value() ? *text : std::string();
}

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kLockFile;
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.open()) return system_error(path, "cannot be made", errno);
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(path, "cannot be locked", errno);
    const std::string holder = text_in(folder);
    return Error{.code = ErrorCode::kRefused,
                 .message = fmt::format(
                     "another job writes its checkpoints to {} ({}): give this one another folder",
                     folder.string(), holder.substr(0, holder.find(" since")))};
  }
  const std::string text = own_text();
  if (::ftruncate(file.descriptor(), 0) != 0 ||
      ::pwrite(file.descriptor(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return system_error(path, "cannot be written", errno);
  return FolderLock(std::move(file), text);
}

}  // namespace tally::checkpoint
