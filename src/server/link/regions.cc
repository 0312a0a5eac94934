#include "server/link/regions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file_limit.h"
#include "net/socket.h"
#include "server/protocol/message.h"

namespace tally::server {
namespace {

constexpr std::size_t kRegionAlignment = 64;
constexpr std::size_t kPageBytes = 4096;
// Allocations smaller than this share a region of this size.
constexpr std::size_t kSharedBytes = std::size_t{4} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

Result<std::span<std::byte>> map(int descriptor, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return net::socket_error("mapping shared memory", errno);
  return std::span(static_cast<std::byte*>(at), bytes);
}

}  // namespace

Result<std::unique_ptr<Mapping>> Mapping::create(std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1), kPageBytes);
  Descriptor memory(::memfd_create("tally", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.open()) return net::socket_error("memory to share", errno);
  if (exceeds_file_limit(bytes))
    return net::socket_error(fmt::format("{} bytes of memory to share (ulimit -f)", bytes), EFBIG);
  if (::ftruncate(memory.descriptor(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(memory.descriptor(), F_ADD_SEALS, kSeals) != 0)
    return net::socket_error(fmt::format("{} bytes of memory to share", bytes), errno);
  TALLY_TRY(const std::span<std::byte> mapped, map(memory.descriptor(), bytes));
  return std::unique_ptr<Mapping>(new Mapping(std::move(memory), mapped));
}

Result<std::unique_ptr<Mapping>> Mapping::open(Descriptor memory, std::uint64_t bytes) {
  const int seals = ::fcntl(memory.descriptor(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || (seals & F_SEAL_WRITE) != 0)
    return corrupt("shared memory that is not sealed against shrinking");
  struct stat info {};
  if (::fstat(memory.descriptor(), &info) != 0 || bytes == 0 ||
      static_cast<std::uint64_t>(info.st_size) != bytes)
    return corrupt("shared memory of {} bytes, announced with {}", info.st_size, bytes);
  TALLY_TRY(const std::span<std::byte> mapped, map(memory.descriptor(), bytes));
  memory.reset();
  return std::unique_ptr<Mapping>(new Mapping(std::move(memory), mapped));
}

Mapping::~Mapping() { ::munmap(bytes_.data(), bytes_.size()); }

Result<std::span<std::byte>> OwnRegions::allocate(std::size_t bytes) {
  const std::size_t wanted = round_up(std::max<std::size_t>(bytes, 1), kRegionAlignment);
  const MutexLock lock(mutex_);
  if (rest_.size() < wanted) {
    if (regions_.size() == kMaxRegions)
      return make_error(ErrorCode::kExhausted, "{} pieces of shared memory are in use",
                        kMaxRegions);
    TALLY_TRY(std::unique_ptr<Mapping> made, Mapping::create(std::max(wanted, kSharedBytes)));
    const std::span<std::byte> all = made->bytes();
    regions_.push_back(std::move(made));
    begins_[all.data()] = static_cast<std::uint16_t>(regions_.size());
    if (all.size() - wanted < rest_.size()) return all.first(bytes);
    rest_ = all;
  }
  const std::span<std::byte> given = rest_.first(bytes);
  rest_ = rest_.subspan(wanted);
  return given;
}

Place OwnRegions::find(std::span<const std::byte> memory) const {
  if (memory.empty()) return 0;
  const MutexLock lock(mutex_);
  auto after = begins_.upper_bound(memory.data());
  if (after == begins_.begin()) return 0;
  const auto& [begin, number] = *--after;
  const std::size_t size = regions_[number - 1]->bytes().size();
  const auto offset = static_cast<std::size_t>(memory.data() - begin);
  if (offset >= size || memory.size() > size - offset || offset % 8 != 0) return 0;
  return (std::uint64_t{number} << 48) | offset;
}

const Mapping& OwnRegions::region(std::uint16_t number) const {
  const MutexLock lock(mutex_);
  TALLY_CHECK(number >= 1 && number <= regions_.size());
  return *regions_[number - 1];
}

Result<void> ShownRegions::add(Descriptor memory, std::uint64_t bytes) {
  if (!memory.open()) return corrupt("shared memory was announced and did not come along");
  if (regions_.size() == kMaxRegions) return corrupt("too many pieces of shared memory");
  TALLY_TRY(std::unique_ptr<Mapping> mapping, Mapping::open(std::move(memory), bytes));
  regions_.push_back(std::move(mapping));
  return {};
}

Result<std::span<std::byte>> ShownRegions::resolve(Place place, std::size_t bytes) const {
  const std::uint16_t number = region_of(place);
  const std::uint64_t offset = offset_of(place);
  if (number == 0 || number > regions_.size())
    return corrupt("a place in shared memory {}, which was not shown", number);
  const std::span<std::byte> all = regions_[number - 1]->bytes();
  if (offset % 8 != 0 || offset > all.size() || bytes > all.size() - offset)
    return corrupt("{} bytes at {} of shared memory that has {}", bytes, offset, all.size());
  return all.subspan(offset, bytes);
}

}  // namespace tally::server
