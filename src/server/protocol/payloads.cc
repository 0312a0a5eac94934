#include "server/protocol/payloads.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

#include "policy/staleness.h"
#include "server/protocol/message.h"
#include "wire/bytes.h"
#include "wire/little_endian.h"

namespace tally::server {
namespace {

// As many as there are ids.
constexpr std::uint32_t kMaxTables = 65535;

}  // namespace

TableId table_id(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char letter : name) {
    hash ^= static_cast<std::uint8_t>(letter);
    hash *= 0x100000001B3ULL;
  }
  hash ^= hash >> 32;
  hash ^= hash >> 16;
  const auto folded = static_cast<TableId>(hash);
  return folded == 0xFFFF ? TableId{0} : folded;
}

std::vector<std::byte> encode(const Client::Size& size) {
  wire::Writer writer;
  writer.u64(size.elements);
  writer.u64(size.bytes);
  writer.u64(size.updates);
  writer.u64(size.dropped);
  writer.u32(static_cast<std::uint32_t>(size.staleness.size()));
  for (const std::uint64_t bin : size.staleness) writer.u64(bin);
  return writer.take();
}

Result<Client::Size> decode_size(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  Client::Size size;
  TALLY_TRY(size.elements, reader.u64());
  TALLY_TRY(size.bytes, reader.u64());
  TALLY_TRY(size.updates, reader.u64());
  TALLY_TRY(size.dropped, reader.u64());
  TALLY_TRY(const std::uint32_t bins, reader.u32());
  if (bins > policy::Histogram::kBins)
    return corrupt("staleness in {} bins, limit {}", bins, policy::Histogram::kBins);
  for (std::uint32_t i = 0; i < bins; ++i) {
    TALLY_TRY(const std::uint64_t bin, reader.u64());
    size.staleness.push_back(bin);
  }
  TALLY_TRY(reader.end());
  return size;
}

void add(const Client::Size& more, Client::Size& sum) {
  sum.elements += more.elements;
  sum.bytes += more.bytes;
  sum.updates += more.updates;
  sum.dropped += more.dropped;
  sum.staleness.resize(std::max(sum.staleness.size(), more.staleness.size()));
  for (std::size_t i = 0; i < more.staleness.size(); ++i) sum.staleness[i] += more.staleness[i];
}

std::vector<std::byte> encode(std::span<const double> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(double));
  for (std::size_t i = 0; i < values.size(); ++i)
    wire::store(bytes, i * sizeof(double), std::bit_cast<std::uint64_t>(values[i]));
  return bytes;
}

Result<std::vector<double>> decode_values(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(double) != 0 || bytes.size() / sizeof(double) > kMaxAgreeValues)
    return corrupt("{} bytes cannot be values of an agreement", bytes.size());
  std::vector<double> values(bytes.size() / sizeof(double));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<double>(wire::load<std::uint64_t>(bytes, i * sizeof(double)));
  return values;
}

std::vector<std::byte> encode(const SnapshotPublication& publication) {
  wire::Writer writer;
  writer.string(publication.name);
  writer.bytes(encode(std::span<const SnapshotFile>(publication.files)));
  return writer.take();
}

Result<SnapshotPublication> decode_publication(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  SnapshotPublication publication;
  TALLY_TRY(publication.name, reader.string(kMaxTextBytes));
  TALLY_TRY(const std::span<const std::byte> files, reader.bytes(reader.remaining_bytes()));
  TALLY_TRY(publication.files, decode_snapshot_files(files));
  return publication;
}

std::vector<std::byte> encode(const SnapshotRestoration& restoration) {
  wire::Writer writer;
  writer.string(restoration.folder);
  writer.u32(static_cast<std::uint32_t>(restoration.only.size()));
  for (const std::string& name : restoration.only) writer.string(name);
  return writer.take();
}

Result<SnapshotRestoration> decode_restoration(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  SnapshotRestoration restoration;
  TALLY_TRY(const std::string folder, reader.string(kMaxTextBytes));
  TALLY_TRY(restoration.folder, decode_text(std::as_bytes(std::span(folder))));
  TALLY_TRY(const std::uint32_t count, reader.u32());
  if (count > kMaxTables) return corrupt("{} tables to restore, limit {}", count, kMaxTables);
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(const std::string name, reader.string(kMaxTextBytes));
    TALLY_TRY(std::string text, decode_text(std::as_bytes(std::span(name))));
    restoration.only.push_back(std::move(text));
  }
  TALLY_TRY(reader.end());
  return restoration;
}

std::vector<std::byte> encode_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<std::string> decode_text(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxTextBytes)
    return corrupt("text of {} bytes, limit {}", bytes.size(), kMaxTextBytes);
  std::string text;
  for (const std::byte byte : bytes) {
    const auto letter = static_cast<char>(byte);
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F)
      return corrupt("text with control characters");
    text.push_back(letter);
  }
  return text;
}

}  // namespace tally::server
