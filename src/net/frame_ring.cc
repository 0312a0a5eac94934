#include "net/frame_ring.h"

#include <cstring>

#include "base/check.h"

namespace tally::net {
namespace {

// A record has its length, a flag for filler up to the ring's end, the header and the payload.
// Records are contiguous and start at multiples of 64.
struct Record {
  std::uint32_t bytes;
  std::uint32_t filler;
  wire::FrameHeader header;
};
constexpr std::size_t kAlign = 64;

std::size_t record_bytes(std::size_t payload) {
  return (sizeof(Record) + payload + kAlign - 1) / kAlign * kAlign;
}

Error corrupt_ring() {
  return {.code = ErrorCode::kCorrupt,
          .message = "a record in shared memory has an impossible length"};
}

}  // namespace

FrameRing::FrameRing(std::byte* memory, std::size_t capacity)
    : positions_(*reinterpret_cast<Positions*>(memory)),
      bytes_(memory + sizeof(Positions)),
      capacity_(capacity) {
  TALLY_CHECK((capacity & (capacity - 1)) == 0);
}

bool FrameRing::push(const wire::FrameHeader& header, std::span<const std::byte> payload) {
  TALLY_CHECK(payload.size() <= max_payload_bytes());
  std::uint64_t written = positions_.written.load(std::memory_order_relaxed);
  const std::size_t need = record_bytes(payload.size());
  const std::size_t at = written & (capacity_ - 1);
  const std::size_t filler = at + need > capacity_ ? capacity_ - at : 0;
  if (written + filler + need - known_read_ > capacity_) {
    known_read_ = positions_.read.load(std::memory_order_acquire);
    if (written + filler + need - known_read_ > capacity_) return false;
  }
  if (filler > 0) {
    const Record skip{static_cast<std::uint32_t>(filler), 1, {}};
    // The filler may be shorter than a whole Record: only its first two words count.
    std::memcpy(bytes_ + at, &skip, 2 * sizeof(std::uint32_t));
    written += filler;
  }
  std::byte* place = bytes_ + (written & (capacity_ - 1));
  const Record record{static_cast<std::uint32_t>(need), 0, header};
  std::memcpy(place, &record, sizeof(record));
  if (!payload.empty()) std::memcpy(place + sizeof(record), payload.data(), payload.size());
  positions_.written.store(written + need, std::memory_order_release);
  return true;
}

Result<std::optional<FrameRing::Front>> FrameRing::front() {
  for (;;) {
    const std::uint64_t read = positions_.read.load(std::memory_order_relaxed);
    const std::uint64_t available = positions_.written.load(std::memory_order_acquire) - read;
    if (available == 0) return std::optional<Front>();
    const std::size_t at = read & (capacity_ - 1);
    const std::byte* place = bytes_ + at;
    std::uint32_t bytes_and_filler[2];
    std::memcpy(bytes_and_filler, place, sizeof(bytes_and_filler));
    const auto [bytes, filler] = bytes_and_filler;
    if (bytes > available || bytes > capacity_ - at || bytes % kAlign != 0 || bytes == 0)
      return corrupt_ring();
    if (filler != 0) {
      positions_.read.store(read + bytes, std::memory_order_release);
      continue;
    }
    if (bytes < sizeof(Record)) return corrupt_ring();
    Record record;
    std::memcpy(&record, place, sizeof(record));
    if (record_bytes(record.header.payload_bytes) != bytes) return corrupt_ring();
    front_bytes_ = bytes;
    return std::optional<Front>(
        Front{record.header, {place + sizeof(Record), record.header.payload_bytes}});
  }
}

void FrameRing::pop() {
  TALLY_CHECK(front_bytes_ > 0);
  positions_.read.store(positions_.read.load(std::memory_order_relaxed) + front_bytes_,
                        std::memory_order_release);
  front_bytes_ = 0;
}

}  // namespace tally::net
