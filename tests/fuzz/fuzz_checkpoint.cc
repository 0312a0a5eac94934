// Files may contain anything: a header of safetensors and a manifest are refused or valid, and a
// valid one is written as it was read.
#include <span>
#include <string>

#include "base/check.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/state_file.h"
#include "fuzz_entry.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::checkpoint {
namespace {

void check_tiles(const std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    TALLY_CHECK(entry.begin == end && entry.end >= entry.begin);
    const auto count = element_count(entry.tensor);
    TALLY_CHECK(count.has_value());
    TALLY_CHECK(*count * size_of(entry.tensor.type) == entry.end - entry.begin);
    end = entry.end;
  }
  TALLY_CHECK(end == data_bytes);
}

// As a whole file.
void check_file(std::string_view file) {
  const auto length = header_length(file, file.size());
  if (!length.has_value()) return;
  TALLY_CHECK(kHeaderLengthBytes + *length <= file.size());
  const std::uint64_t data_bytes = file.size() - kHeaderLengthBytes - *length;
  const auto entries = parse_header(file.substr(kHeaderLengthBytes, *length), data_bytes);
  if (!entries.has_value()) {
    TALLY_CHECK(entries.error().code == ErrorCode::kCorrupt);
    return;
  }
  check_tiles(*entries, data_bytes);
  for (const Entry& entry : *entries) {
    const auto piece = parse_piece_name(entry.tensor.name);
    if (piece.has_value())
      TALLY_CHECK(piece_name(piece->tensor, piece->first) == entry.tensor.name);
  }
  const auto again = encode_header(*entries, "pt");
  TALLY_CHECK(again.has_value());
  TALLY_CHECK(
      parse_header(std::string_view(*again).substr(kHeaderLengthBytes), data_bytes).has_value());
}

void check_manifest(std::string_view text) {
  const auto manifest = manifest_from_text(text);
  if (!manifest.has_value()) {
    TALLY_CHECK(manifest.error().code == ErrorCode::kCorrupt);
    return;
  }
  const auto again = manifest_from_text(to_text(*manifest));
  TALLY_CHECK(again.has_value() && *again == *manifest);
}

constexpr std::string_view kFirstLine = "{\"manifest_crc32c\":\"";

Manifest sample() {
  return {.step = 7,
          .ranks = 1,
          .tensors = {{"w", DataType::kFloat32, {2, 3}}},
          .state_tensors = {{"w/momentum", DataType::kFloat32, {2, 3}}},
          .files = {{"model.safetensors", 100, 1},
                    {"state.json", 2, 2},
                    {"optimizer-00000-of-00001.safetensors", 100, 3}}};
}

}  // namespace
}  // namespace tally::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::checkpoint;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_file(input);
  if (!input.empty() && input.front() == '{') {
    if (const auto entries = parse_header(input, 24); entries.has_value())
      check_tiles(*entries, 24);
  }
  check_manifest(input);
  // With a correct checksum: otherwise hardly any input passes the first check.
  const std::uint32_t crc32c = tally::kernel::crc32c(std::as_bytes(std::span(input)));
  check_manifest(std::string(kFirstLine) + checksum_text(crc32c) + "\",\n" + std::string(input));
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  using namespace tally::checkpoint;
  const std::string manifest = to_text(sample());
  std::string header = *encode_header(lay_out(sample().tensors), "pt");
  std::vector<std::vector<std::uint8_t>> seeds;
  for (const std::string& text : {std::string(), manifest, manifest.substr(manifest.find('\n') + 1),
                                  header.substr(8), header + std::string(24, 'x')})
    seeds.emplace_back(text.begin(), text.end());
  return seeds;
}
