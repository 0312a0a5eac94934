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

// A request's payload as it lies: what is asked for, or pushed, of one part. Borrows the payload's
// bytes but for keys that do not lie at a multiple of eight, which it has copied, and for what was
// encoded.
struct PartPayload {
  std::span<const std::uint64_t> keys;  // sparse
  std::span<const std::byte> values;    // pushes
  std::vector<std::uint64_t> moved_keys;
  std::vector<float> decoded;

  PartPayload() = default;
  // A moved vector keeps its memory, so `keys` and `values` stay good.
  PartPayload(PartPayload&&) = default;
  PartPayload& operator=(PartPayload&&) = default;
  PartPayload(const PartPayload&) = delete;
  PartPayload& operator=(const PartPayload&) = delete;
  ~PartPayload() = default;
};

// Where in a table a payload belongs.
struct PayloadPlace {
  TableKind kind = TableKind::kDense;
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  std::uint32_t dimension = 1;  // sparse
  std::size_t value_bytes = 0;  // dense: of the whole part
  bool has_values = true;       // pushes
  bool check_keys = true;       // false: these bytes were looked at before
};

// kCorrupt if the payload's length is not that of its contents, or if it has keys of another part.
Result<PartPayload> read_payload(std::span<const std::byte> payload, const PayloadPlace& place);

// A gradient as the table's codec has it.
struct EncodedPlace {
  TableCodec::Place place;
  std::size_t count = 0;   // elements of the part
  double weight = 1;       // 0: there may be no bytes
  bool is_shared = false;  // the sender can still write to them
};
// kCorrupt if it is none. Borrows nothing.
Result<PartPayload> read_encoded(std::span<const std::byte> payload, const TableCodec& codec,
                                 const EncodedPlace& part);

}  // namespace tally::server
