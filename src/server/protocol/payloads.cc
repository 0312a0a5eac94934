#include "server/protocol/payloads.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "policy/staleness.h"
#include "server/protocol/message.h"
#include "wire/error_body.h"
#include "wire/fields.h"
#include "wire/little_endian.h"

namespace tally::server {

using wire::FieldsOf;

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

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Client::Size>& size) {
  f.number(size.elements);
  f.number(size.bytes);
  f.number(size.updates);
  f.number(size.dropped);
  f.list(size.staleness, policy::Histogram::kBins, [&f](auto& bin) { f.number(bin); });
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, SnapshotRestoration>& restoration) {
  f.text(restoration.folder, kMaxTextBytes);
  f.list(restoration.only, kMaxTables, [&f](auto& name) { f.text(name, kMaxTextBytes); });
}

std::vector<std::byte> encode(const Client::Size& size) { return wire::encode_fields(size); }
std::vector<std::byte> encode(const SnapshotRestoration& restoration) {
  return wire::encode_fields(restoration);
}

Result<Client::Size> decode_size(std::span<const std::byte> bytes) {
  return wire::decode_fields<Client::Size>(bytes);
}

Result<SnapshotRestoration> decode_restoration(std::span<const std::byte> bytes) {
  TALLY_TRY(auto restoration, wire::decode_fields<SnapshotRestoration>(bytes));
  TALLY_TRY(decode_text(std::as_bytes(std::span(restoration.folder))));
  for (const std::string& name : restoration.only)
    TALLY_TRY(decode_text(std::as_bytes(std::span(name))));
  return restoration;
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

Error decode_refusal(std::span<const std::byte> bytes) {
  Error why;
  if (auto decoded = wire::decode_error(bytes, &why); !decoded.has_value()) return decoded.error();
  return why;
}

std::vector<std::byte> encode_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<std::string> decode_text(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxTextBytes)
    return corrupt("text of {} bytes, limit {}", bytes.size(), kMaxTextBytes);
  for (const std::byte letter : bytes)
    if (letter < std::byte{0x20} || letter == std::byte{0x7F})
      return corrupt("text with control characters");
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace tally::server
