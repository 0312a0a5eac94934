#include "server/part/push_payload.h"

#include <cstring>

#include "server/storage/storage.h"
#include "wire/little_endian.h"

namespace tally::server {

Result<PartPayload> read_payload(std::span<const std::byte> payload, const TableConfig& config,
                                 std::uint32_t part, const PayloadForm& form) {
  PartPayload result;
  if (config.spec.kind == TableKind::kDense) {
    const std::size_t expected = form.has_values ? value_bytes(config.spec, part) : 0;
    if (payload.size() != expected)
      return corrupt("{} bytes for part {}, which takes {}", payload.size(), part, expected);
    result.values = payload;
    return result;
  }
  if (payload.size() < kKeyCountBytes) return corrupt("{} bytes hold no keys", payload.size());
  const std::uint64_t count = wire::load<std::uint32_t>(payload, 0);
  const std::uint64_t row_bytes = sizeof(float) * config.spec.dimension;
  const std::uint64_t expected =
      kKeyCountBytes + count * (sizeof(std::uint64_t) + (form.has_values ? row_bytes : 0));
  if (wire::load<std::uint32_t>(payload, 4) != 0 || payload.size() != expected)
    return corrupt("{} bytes for {} keys, which take {}", payload.size(), count, expected);
  // The rows of the answer must fit into one message.
  if (count * row_bytes > kMaxPayloadBytes)
    return corrupt("{} keys with rows of {} values are too many for a message", count,
                   config.spec.dimension);
  const std::size_t key_bytes = count * sizeof(std::uint64_t);
  result.keys = aligned(payload.subspan(kKeyCountBytes, key_bytes), result.moved_keys);
  result.values = payload.subspan(kKeyCountBytes + key_bytes);
  if (!form.check_keys) return result;
  for (const std::uint64_t key : result.keys)
    if (part_of_key(key, config.parts) != part)
      return corrupt("key {} does not belong to part {}", key, part);
  return result;
}

Result<PartPayload> read_push(const Message& message, const TableConfig& config,
                              std::uint32_t part) {
  const MessageHeader& header = message.header;
  if (config.codec == nullptr || !is_gradient(header))
    return read_payload(message.payload, config, part, {});
  PartPayload result;
  if (message.payload.empty() && header.weight == 0) return result;
  std::span<const std::byte> encoded = message.payload;
  // Shared memory could change between check and use.
  std::vector<std::byte> own;
  if (message.stays) {
    own.assign(encoded.begin(), encoded.end());
    encoded = own;
  }
  result.decoded.resize(elements_of(config.spec, part));
  const std::uint64_t first = std::uint64_t{part} * elements_of(config.spec, 0);
  if (header.push_kind == static_cast<std::uint8_t>(PushKind::kPlainGradient)) {
    TALLY_TRY(read_payload(encoded, config, part, {}));
    std::memcpy(result.decoded.data(), encoded.data(), encoded.size());
    result.plain = true;
  } else {
    TALLY_TRY(config.codec->decode(encoded, first, result.decoded));
  }
  result.values = std::as_bytes(std::span<const float>(result.decoded));
  return result;
}

}  // namespace tally::server
