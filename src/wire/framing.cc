#include "wire/framing.h"

#include "base/check.h"
#include "base/errors.h"
#include "kernel/crc32c/crc32c.h"
#include "wire/frame.h"
#include "wire/little_endian.h"

namespace tally::wire {
namespace {

constexpr std::size_t kPrefixBytes = sizeof(std::uint32_t);

struct Extent {
  std::size_t header_bytes = 0;
  std::size_t payload_bytes = 0;
  std::optional<std::uint32_t> checksum;  // of the payload
};

// Reads the header at the beginning of `bytes`; none if it is not complete.
Result<std::optional<Extent>> read_extent(Framing framing, std::span<const std::byte> bytes) {
  if (framing == Framing::kLengthPrefix) {
    if (bytes.size() < kPrefixBytes) return std::optional<Extent>();
    const auto length = load<std::uint32_t>(bytes, 0);
    if (length == 0 || length > kMaxPrefixedBytes)
      return corrupt("message of {} bytes, limit {}", length, kMaxPrefixedBytes);
    return std::optional(Extent{kPrefixBytes, length, {}});
  }
  if (bytes.size() < kHeaderBytes) return std::optional<Extent>();
  TALLY_TRY(const FrameHeader header, decode(bytes.first<kHeaderBytes>()));
  if (header.kind != FrameKind::kControl || header.payload_bytes == 0 ||
      header.message_bytes != header.payload_bytes)
    return corrupt("not a control frame");
  return std::optional(Extent{kHeaderBytes, header.payload_bytes, header.payload_checksum});
}

}  // namespace

std::vector<std::byte> frame(Framing framing, std::span<const std::byte> payload) {
  const bool prefixed = framing == Framing::kLengthPrefix;
  TALLY_CHECK(!payload.empty() &&
              payload.size() <= (prefixed ? kMaxPrefixedBytes : kMaxPayloadBytes));
  const auto length = static_cast<std::uint32_t>(payload.size());
  std::vector<std::byte> bytes(prefixed ? kPrefixBytes : 0);
  if (prefixed) {
    store(bytes, 0, length);
  } else {
    const EncodedHeader header = encode({.kind = FrameKind::kControl,
                                         .message_bytes = length,
                                         .payload_bytes = length,
                                         .payload_checksum = kernel::crc32c(payload)});
    bytes.assign(header.begin(), header.end());
  }
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

void FrameBuffer::add(std::span<const std::byte> bytes) {
  if (read_bytes_ == bytes_.size()) {
    bytes_.clear();
    read_bytes_ = 0;
  }
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<std::vector<std::byte>>> FrameBuffer::next() {
  TALLY_TRY(const auto extent, read_extent(framing_, unread()));
  if (!extent || unread().size() < extent->header_bytes + extent->payload_bytes) {
    // Bytes that were read are dropped only here, where a part of one message is left.
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(read_bytes_));
    read_bytes_ = 0;
    return std::optional<std::vector<std::byte>>();
  }
  const auto payload = unread().subspan(extent->header_bytes, extent->payload_bytes);
  if (extent->checksum && kernel::crc32c(payload) != *extent->checksum)
    return corrupt("a control frame fails its checksum");
  read_bytes_ += extent->header_bytes + extent->payload_bytes;
  return std::optional(std::vector<std::byte>(payload.begin(), payload.end()));
}

}  // namespace tally::wire
