#include "base/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include "base/errors.h"
#include "base/file_limit.h"

namespace tally {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

Error system_error(const std::filesystem::path& path, const char* what, int number) {
  return make_error(ErrorCode::kSystem, "{}: {}: {}", path.string(), what,
                    std::generic_category().message(number));
}

Error File::failed(const char* what) const { return system_error(path_, what, errno); }

Result<File> File::create(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.open()) return system_error(path, "cannot be made", errno);
  return File(path, std::move(file));
}

Result<File> File::open_to_write(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.open()) return system_error(path, "cannot be opened", errno);
  return File(path, std::move(file));
}

Result<File> File::open_to_read(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for its other end.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) return system_error(path, "cannot be opened", errno);
  struct stat info {};
  if (::fstat(file.descriptor(), &info) != 0)
    return system_error(path, "cannot be looked at", errno);
  if (!S_ISREG(info.st_mode)) return corrupt("{}: not a regular file", path.string());
  return File(path, std::move(file));
}

Result<void> File::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  if (exceeds_file_limit(offset + bytes.size()))
    return system_error(path_, "cannot be written", EFBIG);
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<void> File::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(descriptor_.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("cannot be read");
    if (count == 0) return corrupt("{}: ends at {}", path_.string(), offset);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<void> File::resize(std::uint64_t bytes) const {
  if (exceeds_file_limit(bytes))
    return system_error(path_, "cannot be made as large as it has to be", EFBIG);
  if (::ftruncate(descriptor_.descriptor(), static_cast<off_t>(bytes)) != 0)
    return failed("cannot be made as large as it has to be");
  return {};
}

Result<std::uint64_t> File::size() const {
  struct stat info {};
  if (::fstat(descriptor_.descriptor(), &info) != 0) return failed("cannot be looked at");
  return static_cast<std::uint64_t>(info.st_size);
}

Result<void> File::sync() const {
  if (::fsync(descriptor_.descriptor()) != 0) return failed("cannot be synced");
  return {};
}

Result<void> File::read_through(const std::function<void(std::span<const std::byte>)>& each) const {
  TALLY_TRY(const std::uint64_t bytes, size());
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kChunkBytes, bytes));
  for (std::uint64_t offset = 0; offset < bytes; offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunkBytes, bytes - offset));
    TALLY_TRY(read_at(offset, chunk));
    each(chunk);
  }
  return {};
}

Result<void> write_text(const std::filesystem::path& path, const std::string& text) {
  TALLY_TRY(const File file, File::create(path));
  TALLY_TRY(file.write_at(0, std::as_bytes(std::span(text))));
  return file.sync();
}

Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t max_bytes) {
  TALLY_TRY(const File file, File::open_to_read(path));
  TALLY_TRY(const std::uint64_t bytes, file.size());
  if (bytes > max_bytes) return corrupt("{}: {} bytes, limit {}", path.string(), bytes, max_bytes);
  std::string text(bytes, '\0');
  TALLY_TRY(file.read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator item(folder, error), end; !error && item != end;
       item.increment(error))
    names.push_back(item->path().filename().string());
  return names;
}

Result<void> rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return system_error(from, "cannot be renamed", errno);
  return {};
}

Result<void> sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.open()) return system_error(folder, "cannot be opened", errno);
  if (::fsync(opened.descriptor()) != 0) return system_error(folder, "cannot be synced", errno);
  return {};
}

}  // namespace tally
