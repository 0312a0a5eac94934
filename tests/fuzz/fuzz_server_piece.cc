// Pieces of parts from other servers and from files: a piece is refused or accepted, and an
// accepted piece is written as it was read.
#include <memory>
#include <span>

#include "base/check.h"
#include "fuzz_entry.h"
#include "server/protocol/message.h"
#include "server/storage/piece.h"
#include "server/storage/storage.h"

namespace tally::server {
namespace {

std::vector<TableSpec> specs() {
  return {
      {.name = "d", .count = 9, .optimizer = adam(), .plan = ""},
      {.name = "e", .type = DataType::kFloat64, .count = 5, .plan = ""},
      {.name = "s", .kind = TableKind::kSparse, .dimension = 2, .optimizer = ftrl(), .plan = ""},
      {.name = "t", .kind = TableKind::kSparse, .dimension = 1, .plan = ""}};
}

std::unique_ptr<Storage> made(const TableSpec& spec, MemoryBudget& budget) {
  auto storage = make_storage(spec, 0, budget);
  TALLY_CHECK(storage.has_value());
  return std::move(*storage);
}

void check_taking(const TableSpec& spec, std::span<const std::byte> input) {
  MemoryBudget budget(1 << 20);
  const auto storage = made(spec, budget);
  const auto before = storage->pieces({}, true, kMaxPayloadBytes);
  const auto taken = storage->take(input);
  const auto after = storage->pieces({}, true, kMaxPayloadBytes);
  if (!taken.has_value()) {
    TALLY_CHECK(taken.error().code == ErrorCode::kCorrupt ||
                taken.error().code == ErrorCode::kExhausted);
    TALLY_CHECK(before == after);
    return;
  }
  const auto twin = made(spec, budget);
  for (const auto& piece : after) TALLY_CHECK(twin->take(piece).has_value());
  TALLY_CHECK(twin->pieces({}, true, kMaxPayloadBytes) == after);
}

void check_split(std::span<const std::byte> input) {
  const auto piece = read_sparse_piece(input);
  if (!piece.has_value()) return;
  std::size_t rows = 0;
  for (const auto& dealt : split(*piece, 5)) {
    if (dealt.empty()) continue;
    const auto again = read_sparse_piece(dealt);
    TALLY_CHECK(again.has_value() && again->dimension == piece->dimension);
    rows += again->rows;
  }
  TALLY_CHECK(rows == piece->rows);
}

}  // namespace
}  // namespace tally::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::server;
  const auto input = std::as_bytes(std::span(data, size));
  for (const TableSpec& spec : specs()) check_taking(spec, input);
  check_split(input);
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally::server;
  std::vector<std::vector<std::uint8_t>> seeds{{}};
  for (const TableSpec& spec : specs()) {
    MemoryBudget budget(0);
    const auto storage = made(spec, budget);
    const std::uint64_t keys[] = {1, 2, 3};
    if (spec.kind == TableKind::kSparse) TALLY_CHECK(storage->prepare_rows(keys).has_value());
    for (const auto& piece : storage->pieces({}, true, kMaxPayloadBytes)) {
      const auto* begin = reinterpret_cast<const std::uint8_t*>(piece.data());
      seeds.emplace_back(begin, begin + piece.size());
    }
  }
  return seeds;
}
