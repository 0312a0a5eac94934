#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/storage/storage.h"
#include "server/storage/table_codec.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

// The payload of a push or pull of one part. Borrows the bytes, except unaligned keys, which are
// copied, and decoded values.
struct PartPayload {
  std::span<const std::uint64_t> keys;  // sparse
  std::span<const std::byte> values;    // pushes
  std::vector<std::uint64_t> moved_keys;
  std::vector<float> decoded;

  PartPayload() = default;
  // A moved vector keeps its memory, so `keys` and `values` stay valid.
  PartPayload(PartPayload&&) = default;
  PartPayload& operator=(PartPayload&&) = default;
  PartPayload(const PartPayload&) = delete;
  PartPayload& operator=(const PartPayload&) = delete;
  ~PartPayload() = default;
};

// The part that a payload is for.
struct PayloadPlace {
  TableKind kind = TableKind::kDense;
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  std::uint32_t dimension = 1;  // sparse
  std::size_t value_bytes = 0;  // dense: of the whole part
  bool has_values = true;       // pushes
  bool check_keys = true;       // false: they were checked before
};

// kCorrupt for a wrong length, or keys of another part.
Result<PartPayload> read_payload(std::span<const std::byte> payload, const PayloadPlace& place);

// The run that an encoded gradient is for.
struct EncodedPlace {
  TableCodec::Place place;
  std::size_t count = 0;   // elements of the part
  double weight = 1;       // 0: the payload may be empty
  bool is_shared = false;  // the sender can still write to the payload
};
// kCorrupt if it is no encoding of that run. Borrows nothing.
Result<PartPayload> read_encoded(std::span<const std::byte> payload, const TableCodec& codec,
                                 const EncodedPlace& part);

}  // namespace tally::server
