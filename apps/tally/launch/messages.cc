#include "apps/tally/launch/messages.h"

#include <array>

#include "apps/tally/launch/hosts.h"
#include "base/errors.h"
#include "wire/fields.h"
#include "wire/framing.h"

namespace tally::launch {
namespace {

constexpr std::size_t kMaxTextBytes = 4096;
constexpr int kMaxSignal = 64;

using wire::FieldsOf;

template <typename Fields>
void number_in(Fields& f, FieldsOf<Fields, int>& value, int lowest, int highest) {
  f.number(value);
  f.check(value >= lowest && value <= highest, "a number out of its range");
}

template <typename Fields>
void rank_field(Fields& f, FieldsOf<Fields, Rank>& rank) {
  number_in(f, rank, 0, kMaxRanks - 1);
}

// A word of a command or environment: system calls end it at a zero byte.
template <typename Fields>
void word(Fields& f, FieldsOf<Fields, std::string>& text) {
  f.text(text, wire::kMaxPrefixedBytes);
  f.check(text.find('\0') == std::string::npos, "a zero byte within a word");
}

// The kind of a message is its place in the variant.
template <typename Fields>
void fields(Fields&, FieldsOf<Fields, Reserve>&) {}
template <typename Fields>
void fields(Fields&, FieldsOf<Fields, Ping>&) {}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Launch>& launch) {
  f.list(launch.command, wire::kMaxPrefixedBytes, [&f](auto& each) { word(f, each); });
  f.list(launch.variables, wire::kMaxPrefixedBytes, [&f](auto& variable) {
    word(f, variable.first);
    word(f, variable.second);
  });
  word(f, launch.folder);
  rank_field(f, launch.first_rank);
  number_in(f, launch.ranks, 1, kMaxRanks);
  f.check(std::int64_t{launch.first_rank} + launch.ranks <= kMaxRanks, "a rank out of its range");
  f.choice(launch.binding, Binding::kNone);
  f.bytes(launch.secret.bytes);
  f.number(launch.lease_ms);
  f.check(!launch.command.empty(), "no command");
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Signal>& signal) {
  number_in(f, signal.number, 1, kMaxSignal);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Hello>& hello) {
  f.number(hello.version);
  f.number(hello.pid);
  f.text(hello.host, kMaxTextBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Reserved>& reserved) {
  f.number(reserved.port);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Started>& started) {
  rank_field(f, started.rank);
  f.number(started.pid);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Output>& output) {
  rank_field(f, output.rank);
  f.choice(output.stream, Stream::kErrors);
  f.text(output.bytes, kMaxOutputBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Ended>& ended) {
  rank_field(f, ended.rank);
  number_in(f, ended.code, 0, 255);
  number_in(f, ended.signal, 0, kMaxSignal);
  f.clipped(ended.note, kMaxTextBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Trouble>& trouble) {
  f.clipped(trouble.text, kMaxTextBytes);
}

template <std::size_t kKind>
Result<void> read_kind(wire::Reader& from, Message& message) {
  wire::FieldReader reader(from);
  fields(reader, message.emplace<kKind>());
  return reader.outcome();
}

template <std::size_t... kKinds>
constexpr auto readers(std::index_sequence<kKinds...>) {
  return std::array{&read_kind<kKinds>...};
}

// Indexed by kind.
constexpr auto kReaders = readers(std::make_index_sequence<std::variant_size_v<Message>>());

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  wire::Writer body;
  body.u8(static_cast<std::uint8_t>(message.index()));
  wire::FieldWriter writer(body);
  std::visit([&writer](const auto& each) { fields(writer, each); }, message);
  return body.take();
}

Result<void> decode(std::span<const std::byte> kind_and_body, Message& message) {
  wire::Reader reader(kind_and_body);
  TALLY_TRY(const std::uint8_t kind, reader.u8());
  if (kind >= kReaders.size()) return corrupt("no message of kind {}", kind);
  TALLY_TRY(kReaders[kind](reader, message));
  return reader.end();
}

}  // namespace tally::launch
