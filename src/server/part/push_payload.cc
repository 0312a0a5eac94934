#include "server/part/push_payload.h"

#include "server/protocol/message.h"
#include "wire/little_endian.h"

namespace tally::server {
namespace {

Result<PartPayload> read_dense(std::span<const std::byte> payload, const PayloadPlace& place) {
  const std::size_t expected = place.has_values ? place.value_bytes : 0;
  if (payload.size() != expected)
    return corrupt("{} bytes for part {}, which takes {}", payload.size(), place.part, expected);
  PartPayload result;
  result.values = payload;
  return result;
}

}  // namespace

Result<PartPayload> read_payload(std::span<const std::byte> payload, const PayloadPlace& place) {
  if (place.kind == TableKind::kDense) return read_dense(payload, place);
  if (payload.size() < kKeyCountBytes) return corrupt("{} bytes hold no keys", payload.size());
  const std::uint64_t count = wire::load<std::uint32_t>(payload, 0);
  const std::uint64_t row_bytes = place.has_values ? sizeof(float) * place.dimension : 0;
  const std::uint64_t expected = kKeyCountBytes + count * (sizeof(std::uint64_t) + row_bytes);
  if (wire::load<std::uint32_t>(payload, 4) != 0 || payload.size() != expected)
    return corrupt("{} bytes for {} keys, which take {}", payload.size(), count, expected);
  // The rows of the answer must fit into one message.
  if (count * sizeof(float) * place.dimension > kMaxPayloadBytes)
    return corrupt("{} keys with rows of {} values are too many for a message", count,
                   place.dimension);
  PartPayload result;
  const std::size_t key_bytes = count * sizeof(std::uint64_t);
  result.keys = aligned(payload.subspan(kKeyCountBytes, key_bytes), result.moved_keys);
  result.values = payload.subspan(kKeyCountBytes + key_bytes);
  if (!place.check_keys) return result;
  for (const std::uint64_t key : result.keys)
    if (part_of_key(key, place.parts) != place.part)
      return corrupt("key {} does not belong to part {}", key, place.part);
  return result;
}

Result<PartPayload> read_encoded(std::span<const std::byte> payload, const TableCodec& codec,
                                 const EncodedPlace& part) {
  PartPayload result;
  if (payload.empty() && part.weight == 0) return result;
  // Shared memory could change between check and use.
  std::vector<std::byte> own;
  if (part.is_shared) {
    own.assign(payload.begin(), payload.end());
    payload = own;
  }
  result.decoded.resize(part.count);
  TALLY_TRY(codec.decode(payload, part.place, result.decoded));
  result.values = std::as_bytes(std::span<const float>(result.decoded));
  return result;
}

}  // namespace tally::server
