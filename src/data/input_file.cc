#include "data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/descriptor.h"
#include "base/errors.h"
#include "base/memory_limit.h"
#include "base/units.h"

namespace tally::data {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

Error unreadable(const std::filesystem::path& path, int number) {
  const char* advice = "";
  if (number == ENOENT)
    advice = ": give the path of a file, or a name that `tally data list` shows";
  if (number == EACCES) advice = ": you need the right to read it";
  if (number == EISDIR) advice = ": a file is wanted here";
  return {.code = ErrorCode::kSystem,
          .message = fmt::format("cannot read {}: {}{}", path.string(), strerror(number), advice)};
}

// A reader also needs memory for its samples.
constexpr std::uint64_t kShareOfMemory = 3;
// Data have a small part of their size when they are packed; the content of a decompression bomb
// is up to 1000 times larger than the file. Small files may be that repetitive.
constexpr std::uint64_t kMaxRatio = 100;
constexpr std::uint64_t kSmallBytes = std::uint64_t{64} << 20;

struct SizeLimit {
  std::uint64_t bytes = 0;
  std::string reason = "the limit";
};

SizeLimit limit_of(const ReadLimits& limits) {
  const std::uint64_t memory = usable_memory_bytes(limits.readers) / kShareOfMemory;
  if (memory < limits.max_bytes) return {memory, memory_share_text("a third", limits.readers)};
  return {limits.max_bytes};
}

SizeLimit unpacked_limit(std::uint64_t packed_bytes, const ReadLimits& limits) {
  const SizeLimit plain = limit_of(limits);
  const std::uint64_t by_ratio = std::max(kSmallBytes, packed_bytes * kMaxRatio);
  if (by_ratio >= plain.bytes) return plain;
  return {by_ratio, "far more than data pack into so few bytes; unpack the file if this is right"};
}

Error too_large(const std::string& name, const SizeLimit& limit) {
  return make_error(ErrorCode::kExhausted, "{}: the content is more than {}, {}", name,
                    format_bytes(limit.bytes), limit.reason);
}

Result<Descriptor> open_regular(const std::filesystem::path& path) {
  // Without O_NONBLOCK the call waits until another process opens the other end of a pipe.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int number = errno;
  struct stat facts {};
  const bool exists =
      file.open() ? ::fstat(file.descriptor(), &facts) == 0 : ::stat(path.c_str(), &facts) == 0;
  const bool special = exists && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode);
  if (special)
    return invalid("{} is not a regular file: write the data into one, which every worker can read",
                   path.string());
  if (!file.open()) return unreadable(path, number);
  return file;
}

Result<Bytes> read_as_it_is(const std::filesystem::path& path, const ReadLimits& limits) {
  TALLY_TRY(const Descriptor file, open_regular(path));
  struct stat facts {};
  if (::fstat(file.descriptor(), &facts) != 0) return unreadable(path, errno);
  // One byte more than the file size, so that the loop reaches the end without growing the buffer.
  const auto size = static_cast<std::uint64_t>(std::max<off_t>(facts.st_size, 0));
  const SizeLimit limit = limit_of(limits);
  if (size > limit.bytes) return too_large(path.string(), limit);
  Bytes bytes(size + 1);
  std::size_t used = 0;
  for (;;) {
    if (used == bytes.size()) bytes.resize(bytes.size() + kPieceBytes);
    const ssize_t count = ::read(file.descriptor(), bytes.data() + used, bytes.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unreadable(path, errno);
    if (count == 0) break;
    used += static_cast<std::size_t>(count);
    if (used > limit.bytes) return too_large(path.string(), limit);
  }
  bytes.resize(used);
  return bytes;
}

// Owns the state of zlib.
class Inflater final {
 public:
  Inflater() { ready_ = ::inflateInit2(&stream_, 15 + 16) == Z_OK; }
  ~Inflater() {
    if (ready_) ::inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  bool ready() const { return ready_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

}  // namespace

std::uint32_t big_endian(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[offset + i]);
  return value;
}

Error corrupt(const std::string& file, std::uint64_t offset, std::string_view expected,
              std::string_view found) {
  return tally::corrupt(
      fmt::format("{}: offset {}: expected {}, found {}", file, offset, expected, found));
}

Error bad_line(std::span<const std::byte> bytes, const std::string& name, std::uint64_t offset,
               std::string_view expected, std::string_view found) {
  const auto end =
      bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset, bytes.size()));
  const auto line = std::count(bytes.begin(), end, std::byte{'\n'}) + 1;
  return tally::corrupt(
      fmt::format("{}: line {}: expected {}, found {}", name, line, expected, found));
}

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

Result<Bytes> unpack_gzip(std::span<const std::byte> packed, const std::string& name,
                          const ReadLimits& limits) {
  Inflater inflater;
  if (!inflater.ready())
    return Error{.code = ErrorCode::kExhausted, .message = name + ": no memory to unpack it"};
  z_stream& stream = inflater.stream();
  const SizeLimit limit = unpacked_limit(packed.size(), limits);
  Bytes result;
  std::size_t used = 0;
  std::size_t given = 0;  // bytes of `packed` passed to zlib
  for (;;) {
    if (stream.avail_in == 0) {
      const std::size_t more = std::min<std::size_t>(packed.size() - given, kPieceBytes);
      // zlib only reads from next_in, but the type is not const.
      stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + given));
      stream.avail_in = static_cast<uInt>(more);
      given += more;
    }
    if (used == result.size())
      result.resize(
          std::clamp<std::uint64_t>(result.size() * 2, kPieceBytes, limit.bytes + kPieceBytes));
    const std::size_t room = std::min(result.size() - used, kPieceBytes);
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + used);
    stream.avail_out = static_cast<uInt>(room);
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    used += room - stream.avail_out;
    if (used > limit.bytes) return too_large(name, limit);
    const std::size_t offset = given - stream.avail_in;
    if (status == Z_STREAM_END) {
      if (offset == packed.size()) break;
      if (::inflateReset(&stream) == Z_OK) continue;
    }
    if (status == Z_BUF_ERROR && offset == packed.size())
      return corrupt(name, offset, "the rest of the gzip data", "the end of the file");
    if (status != Z_OK && status != Z_BUF_ERROR)
      return corrupt(name, offset, "gzip data", stream.msg != nullptr ? stream.msg : "broken ones");
  }
  result.resize(used);
  return result;
}

Result<std::string> first_bytes(const std::filesystem::path& path, std::size_t count) {
  TALLY_TRY(const Descriptor file, open_regular(path));
  std::string bytes(count, '\0');
  ssize_t got = -1;
  do {
    got = ::read(file.descriptor(), bytes.data(), count);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return unreadable(path, errno);
  bytes.resize(static_cast<std::size_t>(got));
  Inflater inflater;
  if (!is_gzip(std::as_bytes(std::span(bytes))) || !inflater.ready()) return bytes;
  std::string unpacked(count, '\0');
  z_stream& stream = inflater.stream();
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(unpacked.data());
  stream.avail_out = static_cast<uInt>(count);
  ::inflate(&stream, Z_SYNC_FLUSH);
  unpacked.resize(count - stream.avail_out);
  return unpacked;
}

Result<Bytes> read_file(const std::filesystem::path& path, const ReadLimits& limits) {
  TALLY_TRY(Bytes bytes, read_as_it_is(path, limits));
  if (!is_gzip(bytes)) return bytes;
  return unpack_gzip(bytes, path.string(), limits);
}

std::string memory_share_text(const char* share, int readers) {
  if (readers == 1) return fmt::format("{} of the usable memory", share);
  return fmt::format(
      "{} of the memory that each of {} workers on this host may use: fewer workers need less",
      share, readers);
}

}  // namespace tally::data
