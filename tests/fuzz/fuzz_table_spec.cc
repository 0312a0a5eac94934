// A worker's description of a table, and a snapshot's list of files and descriptions of pieces:
// both are refused, or valid and written as they were read.
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/check.h"
#include "checkpoint/layout.h"
#include "fuzz_entry.h"
#include "kernel/crc32c/crc32c.h"
#include "server/snapshot/snapshot.h"
#include "server/storage/storage.h"

namespace tally::server {
namespace {

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

template <typename T>
bool refused(const Result<T>& result) {
  if (result.has_value()) return false;
  TALLY_CHECK(result.error().code == ErrorCode::kCorrupt);
  return true;
}

void check_spec(std::span<const std::byte> input) {
  const auto spec = decode_spec(input);
  if (refused(spec)) return;
  TALLY_CHECK(check(*spec).has_value());
  TALLY_CHECK(same(encode(*spec), input));
  TALLY_CHECK(parts_of(*spec, 3) >= 1);
}

void check_piece(std::span<const std::byte> input) {
  const auto piece = decode_saved_piece(input);
  if (refused(piece)) return;
  TALLY_CHECK(same(encode(*piece), input));
  const auto tensors = tensors_of(*piece);
  if (!refused(tensors)) TALLY_CHECK(checkpoint::element_count(tensors->front()).has_value());
}

// Other JSON texts have the same meaning.
void check_files(std::span<const std::byte> input) {
  const auto files = decode_snapshot_files(input);
  if (refused(files)) return;
  const auto again = decode_snapshot_files(encode(std::span(*files)));
  TALLY_CHECK(again.has_value() && *again == *files);
}

std::vector<SnapshotFile> sample() {
  return {{"server-1-00000.safetensors", 1234, 0x1C291CA3}, {"server-2-00001.safetensors", 99, 7}};
}

constexpr std::string_view kFirstLine = "{\"manifest_crc32c\":\"";

}  // namespace
}  // namespace tally::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::server;
  const auto input = std::as_bytes(std::span(data, size));
  check_spec(input);
  check_piece(input);
  check_files(input);
  // With a correct checksum: otherwise hardly any input passes the first check.
  const std::string whole =
      fmt::format("{}{:08x}\",\n{}", kFirstLine, tally::kernel::crc32c(input),
                  std::string_view(reinterpret_cast<const char*>(data), size));
  check_files(std::as_bytes(std::span(whole)));
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally;
  using namespace tally::server;
  std::vector<std::vector<std::uint8_t>> seeds{{}};
  const auto add = [&seeds](std::span<const std::byte> bytes) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
    seeds.emplace_back(begin, begin + bytes.size());
  };
  add(encode(TableSpec{.name = "w", .count = 7, .optimizer = adamw(), .plan = "update=asp"}));
  add(encode(TableSpec{.name = "e",
                       .kind = TableKind::kSparse,
                       .dimension = 16,
                       .optimizer = ftrl({.l1 = 0.5}),
                       .plan = "",
                       .initial_scale = 0.01}));
  SavedPiece piece{.spec = {.name = "w", .count = 7, .plan = "update=asp"}};
  write_header(DensePiece{.count = 7, .values = {}}, piece.header);
  add(encode(piece));
  const auto files = encode(std::span<const SnapshotFile>(sample()));
  add(files);
  add(std::span(files).subspan(kFirstLine.size() + 11));
  return seeds;
}
