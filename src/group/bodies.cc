#include "group/bodies.h"

#include "wire/fields.h"

namespace tally::group {

using wire::FieldsOf;

namespace {

constexpr std::size_t kMaxTextBytes = 256;

// The words up to the last one that is not zero, as a list with a u8 count.
template <typename Fields>
void cpu_words(Fields& f, FieldsOf<Fields, CpuSet>& cpus) {
  std::vector<std::uint64_t> words;
  if constexpr (!Fields::kReads) {
    words.assign(cpus.begin(), cpus.end());
    while (!words.empty() && words.back() == 0) words.pop_back();
  }
  f.template list<std::uint8_t>(words, cpus.size(), [&f](auto& word) { f.number(word); });
  if constexpr (Fields::kReads) std::copy(words.begin(), words.end(), cpus.begin());
}

}  // namespace

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Hello>& hello) {
  f.number(hello.rank);
  f.number(hello.size);
  f.number(hello.generation);
  f.choice(hello.transport, TransportKind::kTls);
  f.text(hello.host, kMaxTextBytes);
  f.text(hello.host_name, kMaxTextBytes);
  f.number(hello.pid);
  f.text(hello.listens.host, kMaxTextBytes);
  f.number(hello.listens.port);
  f.text(hello.local_socket, kMaxTextBytes);
  cpu_words(f, hello.cpus);
  f.list(hello.lost, kMaxRanks, [&f](auto& rank) { f.number(rank); });
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Welcome>& welcome) {
  f.number(welcome.generation);
  f.bytes(welcome.token);
  f.list(welcome.members, kMaxRanks, [&f](auto& member) { fields(f, member); });
}

void write(wire::Writer& writer, const Hello& hello) { wire::write_fields(writer, hello); }
Result<Hello> read_hello(wire::Reader& reader) { return wire::read_fields<Hello>(reader); }
void write(wire::Writer& writer, const Welcome& welcome) { wire::write_fields(writer, welcome); }
Result<Welcome> read_welcome(wire::Reader& reader) { return wire::read_fields<Welcome>(reader); }

}  // namespace tally::group
