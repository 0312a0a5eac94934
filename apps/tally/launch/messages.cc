#include "apps/tally/launch/messages.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "apps/tally/launch/hosts.h"
#include "wire/bytes.h"
#include "wire/framing.h"

namespace tally::launch {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::size_t kMaxSignals = 64;

using wire::Reader;
using wire::Writer;

Error corrupt(std::string message) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

// The kind of a message is its place in the variant.
void write(Writer&, const Reserve&) {}
void write(Writer&, const Ping&) {}
void write(Writer& to, const Launch& launch) {
  to.u32(static_cast<std::uint32_t>(launch.command.size()));
  for (const std::string& word : launch.command) to.string(word);
  to.u32(static_cast<std::uint32_t>(launch.variables.size()));
  for (const auto& [name, value] : launch.variables) {
    to.string(name);
    to.string(value);
  }
  to.string(launch.folder);
  to.i32(launch.first_rank);
  to.i32(launch.ranks);
  to.u8(static_cast<std::uint8_t>(launch.binding));
  to.bytes(launch.secret.bytes);
  to.u32(launch.lease_ms);
}
void write(Writer& to, const Signal& signal) { to.i32(signal.number); }
void write(Writer& to, const Hello& hello) {
  to.u32(hello.version);
  to.i32(hello.pid);
  to.string(hello.host);
}
void write(Writer& to, const Reserved& reserved) { to.u16(reserved.port); }
void write(Writer& to, const Started& started) {
  to.i32(started.rank);
  to.i32(started.pid);
}
void write(Writer& to, const Output& output) {
  to.i32(output.rank);
  to.u8(static_cast<std::uint8_t>(output.stream));
  to.string(output.bytes);
}
void write(Writer& to, const Ended& ended) {
  to.i32(ended.rank);
  to.i32(ended.code);
  to.i32(ended.signal);
  to.string(std::string_view(ended.note).substr(0, kMaxTextBytes));
}
void write(Writer& to, const Trouble& trouble) {
  to.string(std::string_view(trouble.text).substr(0, kMaxTextBytes));
}

Result<int> number(Reader& from, int lowest, int highest) {
  TALLY_TRY(const int value, from.i32());
  if (value < lowest || value > highest)
    return corrupt(fmt::format("{} is not from {} to {}", value, lowest, highest));
  return value;
}

Result<Rank> rank(Reader& from) { return number(from, 0, kMaxRanks - 1); }

template <typename Enum>
Result<Enum> choice(Reader& from, Enum last) {
  TALLY_TRY(const std::uint8_t value, from.u8());
  if (value > static_cast<std::uint8_t>(last)) return corrupt(fmt::format("no choice {}", value));
  return static_cast<Enum>(value);
}

// A word of a command or environment: the system's calls end it at a zero byte.
Result<std::string> word(Reader& from) {
  TALLY_TRY(std::string text, from.string(wire::kMaxPrefixedBytes));
  if (text.find('\0') != std::string::npos) return corrupt("a zero byte within a word");
  return text;
}

// How many elements follow: each has at least `bytes_each`, so more than that cannot be there.
Result<std::size_t> count(Reader& from, std::size_t bytes_each) {
  TALLY_TRY(const std::uint32_t value, from.u32());
  if (value > from.remaining_bytes() / bytes_each) return corrupt("more elements than bytes");
  return value;
}

Result<void> read(Reader&, Reserve&) { return {}; }
Result<void> read(Reader&, Ping&) { return {}; }

Result<void> read(Reader& from, Launch& launch) {
  TALLY_TRY(const std::size_t words, count(from, kLengthBytes));
  for (std::size_t i = 0; i < words; ++i) {
    TALLY_TRY(launch.command.emplace_back(), word(from));
  }
  TALLY_TRY(const std::size_t variables, count(from, 2 * kLengthBytes));
  for (std::size_t i = 0; i < variables; ++i) {
    auto& [name, value] = launch.variables.emplace_back();
    TALLY_TRY(name, word(from));
    TALLY_TRY(value, word(from));
  }
  TALLY_TRY(launch.folder, word(from));
  TALLY_TRY(launch.first_rank, rank(from));
  TALLY_TRY(launch.ranks, number(from, 1, kMaxRanks - launch.first_rank));
  TALLY_TRY(launch.binding, choice(from, Binding::kNone));
  TALLY_TRY(const auto secret, from.bytes(launch.secret.bytes.size()));
  std::copy(secret.begin(), secret.end(), launch.secret.bytes.begin());
  TALLY_TRY(launch.lease_ms, from.u32());
  if (launch.command.empty()) return corrupt("no command");
  return {};
}

Result<void> read(Reader& from, Signal& signal) {
  TALLY_TRY(signal.number, number(from, 1, kMaxSignals));
  return {};
}

Result<void> read(Reader& from, Hello& hello) {
  TALLY_TRY(hello.version, from.u32());
  TALLY_TRY(hello.pid, from.i32());
  TALLY_TRY(hello.host, from.string(kMaxTextBytes));
  return {};
}

Result<void> read(Reader& from, Reserved& reserved) {
  TALLY_TRY(reserved.port, from.u16());
  return {};
}

Result<void> read(Reader& from, Started& started) {
  TALLY_TRY(started.rank, rank(from));
  TALLY_TRY(started.pid, from.i32());
  return {};
}

Result<void> read(Reader& from, Output& output) {
  TALLY_TRY(output.rank, rank(from));
  TALLY_TRY(output.stream, choice(from, Stream::kErrors));
  TALLY_TRY(output.bytes, from.string(kMaxOutputBytes));
  return {};
}

Result<void> read(Reader& from, Ended& ended) {
  TALLY_TRY(ended.rank, rank(from));
  TALLY_TRY(ended.code, number(from, 0, 255));
  TALLY_TRY(ended.signal, number(from, 0, kMaxSignals));
  TALLY_TRY(ended.note, from.string(kMaxTextBytes));
  return {};
}

Result<void> read(Reader& from, Trouble& trouble) {
  TALLY_TRY(trouble.text, from.string(kMaxTextBytes));
  return {};
}

template <std::size_t kKind>
Result<void> read_kind(Reader& from, Message& message) {
  return read(from, message.emplace<kKind>());
}

template <std::size_t... kKinds>
constexpr auto readers(std::index_sequence<kKinds...>) {
  return std::array{&read_kind<kKinds>...};
}

// By kind.
constexpr auto kReaders = readers(std::make_index_sequence<std::variant_size_v<Message>>());

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  Writer body;
  body.u8(static_cast<std::uint8_t>(message.index()));
  std::visit([&body](const auto& each) { write(body, each); }, message);
  return body.take();
}

Result<void> decode(std::span<const std::byte> kind_and_body, Message& message) {
  Reader reader(kind_and_body);
  TALLY_TRY(const std::uint8_t kind, reader.u8());
  if (kind >= kReaders.size()) return corrupt(fmt::format("no message of kind {}", kind));
  TALLY_TRY(kReaders[kind](reader, message));
  return reader.end();
}

}  // namespace tally::launch
