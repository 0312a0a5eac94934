#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/part/table.h"
#include "server/protocol/node.h"
#include "tally/error.h"

namespace tally::server {

// The payload of a push or pull of one part. Borrows the bytes, except unaligned keys, which are
// copied, and decoded values.
struct PartPayload {
  std::span<const std::uint64_t> keys;  // sparse
  std::span<const std::byte> values;    // pushes
  std::vector<std::uint64_t> moved_keys;
  std::vector<float> decoded;
  bool plain = false;  // PushKind::kPlainGradient

  PartPayload() = default;
  // A moved vector keeps its memory, so `keys` and `values` stay valid.
  PartPayload(PartPayload&&) = default;
  PartPayload& operator=(PartPayload&&) = default;
  PartPayload(const PartPayload&) = delete;
  PartPayload& operator=(const PartPayload&) = delete;
  ~PartPayload() = default;
};

struct PayloadForm {
  bool has_values = true;  // pushes
  bool check_keys = true;  // false: they were checked before
};
// kCorrupt for a wrong length, or keys of another part.
Result<PartPayload> read_payload(std::span<const std::byte> payload, const TableConfig& config,
                                 std::uint32_t part, const PayloadForm& form);

// The payload of a push, decoded if it is an encoded gradient, which borrows nothing. kCorrupt also
// if it is no encoding of the part's values.
Result<PartPayload> read_push(const Message& message, const TableConfig& config,
                              std::uint32_t part);

}  // namespace tally::server
