#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "net/socket.h"
#include "tally/error.h"
#include "tally/job.h"
#include "wire/fields.h"
#include "wire/greeting.h"

namespace tally::group {

// The largest number of ranks in a membership.
inline constexpr int kMaxRanks = 4096;

// A rank presents itself at the rendezvous with this.
struct Hello {
  Rank rank = 0;
  int size = 1;
  std::uint32_t generation = 1;  // of the membership that it joins
  TransportKind transport = TransportKind::kAuto;
  std::string host;       // the same text on ranks that can share memory, and only there
  std::string host_name;  // for people
  std::int64_t pid = 0;
  net::Address listens;
  std::string local_socket;  // abstract name where it can be reached from inside its host
  CpuSet cpus{};             // that it may use
  std::vector<Rank> lost;    // ranks of the previous membership that it knows to be lost

  friend bool operator==(const Hello&, const Hello&) = default;
};

// The host sends this to all ranks once all have come: the members in the order of their new ranks,
// each with the rank that it had when it joined.
struct Welcome {
  std::uint32_t generation = 1;
  wire::JobToken token{};
  std::vector<Hello> members;

  friend bool operator==(const Welcome&, const Welcome&) = default;
};

using wire::FieldsOf;

template <typename Fields>
void rank_field(Fields& f, FieldsOf<Fields, Rank>& rank) {
  f.number(rank);
  f.check(rank >= 0 && rank < kMaxRanks, "a rank that is not possible");
}

// The words up to the last one that is not zero, as a list with a u8 count.
template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, CpuSet>& cpus) {
  std::vector<std::uint64_t> words;
  if constexpr (!Fields::kReads) {
    words.assign(cpus.begin(), cpus.end());
    while (!words.empty() && words.back() == 0) words.pop_back();
  }
  f.template list<std::uint8_t>(words, cpus.size(), [&f](auto& word) { f.number(word); });
  if constexpr (Fields::kReads) std::copy(words.begin(), words.end(), cpus.begin());
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Hello>& hello) {
  constexpr std::size_t kMaxTextBytes = 256;
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
  fields(f, hello.cpus);
  f.list(hello.lost, kMaxRanks, [&f](auto& rank) { f.number(rank); });
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Welcome>& welcome) {
  f.number(welcome.generation);
  f.bytes(welcome.token);
  f.list(welcome.members, kMaxRanks, [&f](auto& member) { fields(f, member); });
}

}  // namespace tally::group
