#include "group/bodies.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::group {
namespace {

constexpr std::size_t kMaxText = 256;

Error corrupt(std::string_view what) {
  return {.code = ErrorCode::kCorrupt, .message = fmt::format("a hello with {}", what)};
}

// Trailing zero words are left out.
void write(wire::Writer& writer, const CpuSet& cpus) {
  std::size_t words = cpus.size();
  while (words > 0 && cpus[words - 1] == 0) --words;
  writer.u8(static_cast<std::uint8_t>(words));
  for (std::size_t word = 0; word < words; ++word) writer.u64(cpus[word]);
}

Result<CpuSet> read_cpus(wire::Reader& reader) {
  CpuSet cpus{};
  TALLY_TRY(const std::uint8_t words, reader.u8());
  if (words > cpus.size()) return corrupt("too many processors");
  for (std::size_t word = 0; word < words; ++word) {
    TALLY_TRY(cpus[word], reader.u64());
  }
  return cpus;
}

}  // namespace

void write(wire::Writer& writer, const Hello& hello) {
  writer.i32(hello.rank);
  writer.i32(hello.size);
  writer.u32(hello.generation);
  writer.u8(static_cast<std::uint8_t>(hello.transport));
  writer.string(hello.host);
  writer.string(hello.host_name);
  writer.u64(static_cast<std::uint64_t>(hello.pid));
  writer.string(hello.listens.host);
  writer.u16(hello.listens.port);
  writer.string(hello.local_socket);
  write(writer, hello.cpus);
  writer.u32(static_cast<std::uint32_t>(hello.lost.size()));
  for (const Rank rank : hello.lost) writer.i32(rank);
}

Result<Hello> read_hello(wire::Reader& reader) {
  Hello hello;
  TALLY_TRY(hello.rank, reader.i32());
  TALLY_TRY(hello.size, reader.i32());
  TALLY_TRY(hello.generation, reader.u32());
  TALLY_TRY(const std::uint8_t transport, reader.u8());
  if (transport > static_cast<std::uint8_t>(TransportKind::kTls))
    return corrupt("an unknown transport");
  hello.transport = static_cast<TransportKind>(transport);
  TALLY_TRY(hello.host, reader.string(kMaxText));
  TALLY_TRY(hello.host_name, reader.string(kMaxText));
  TALLY_TRY(const std::uint64_t pid, reader.u64());
  hello.pid = static_cast<std::int64_t>(pid);
  TALLY_TRY(hello.listens.host, reader.string(kMaxText));
  TALLY_TRY(hello.listens.port, reader.u16());
  TALLY_TRY(hello.local_socket, reader.string(kMaxText));
  TALLY_TRY(hello.cpus, read_cpus(reader));
  TALLY_TRY(const std::uint32_t lost, reader.u32());
  if (lost > static_cast<std::uint32_t>(kMaxRanks)) return corrupt("too many lost ranks");
  for (std::uint32_t i = 0; i < lost; ++i) {
    TALLY_TRY(const Rank rank, reader.i32());
    hello.lost.push_back(rank);
  }
  return hello;
}

void write(wire::Writer& writer, const Welcome& welcome) {
  writer.u32(welcome.generation);
  writer.bytes(welcome.token);
  writer.u32(static_cast<std::uint32_t>(welcome.members.size()));
  for (const Hello& member : welcome.members) write(writer, member);
}

Result<Welcome> read_welcome(wire::Reader& reader) {
  Welcome welcome;
  TALLY_TRY(welcome.generation, reader.u32());
  TALLY_TRY(const auto token, reader.bytes(welcome.token.size()));
  std::copy(token.begin(), token.end(), welcome.token.begin());
  TALLY_TRY(const std::uint32_t members, reader.u32());
  if (members > static_cast<std::uint32_t>(kMaxRanks)) return corrupt("too many members");
  for (std::uint32_t i = 0; i < members; ++i) {
    TALLY_TRY(Hello member, read_hello(reader));
    welcome.members.push_back(std::move(member));
  }
  return welcome;
}

}  // namespace tally::group
