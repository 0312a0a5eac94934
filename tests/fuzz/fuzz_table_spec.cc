// A worker's description of a table and a snapshot's list of files: they are refused, or valid and
// written as they were read.
#include <span>
#include <string_view>

#include "base/check.h"
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

void check_manifest(std::string_view text) {
  const auto files = snapshot_files_from_text(text);
  if (!refused(files)) TALLY_CHECK(to_text(*files) == text);
}

void check_files(std::span<const std::byte> input) {
  const auto files = decode_snapshot_files(input);
  if (!refused(files)) TALLY_CHECK(same(encode(std::span(*files)), input));
}

std::vector<SnapshotFile> sample() {
  return {{"server-1.tally", 1234, 0x1C291CA3}, {"server-2.tally", 99, 7}};
}

constexpr std::string_view kTwoLines = "tally snapshot 1\ncrc32c 00000000\n";

}  // namespace
}  // namespace tally::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::server;
  const auto input = std::as_bytes(std::span(data, size));
  check_spec(input);
  check_files(input);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_manifest(text);
  // With a correct checksum: otherwise hardly any input passes the first check.
  std::string whole = std::string(kTwoLines) + std::string(text);
  constexpr char kDigits[] = "0123456789abcdef";
  const std::uint32_t crc32c = tally::kernel::crc32c(input);
  for (std::size_t i = 0; i < 8; ++i)
    whole[kTwoLines.size() - 9 + i] = kDigits[(crc32c >> (28 - 4 * i)) & 15];
  check_manifest(whole);
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
  const auto files = sample();
  add(encode(std::span(files)));
  const std::string text = to_text(files);
  add(std::as_bytes(std::span(text)));
  add(std::as_bytes(std::span(text).subspan(kTwoLines.size())));
  return seeds;
}
