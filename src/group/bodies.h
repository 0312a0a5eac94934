#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "net/socket.h"
#include "tally/error.h"
#include "tally/job.h"
#include "wire/bytes.h"
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

void write(wire::Writer& writer, const Hello& hello);
Result<Hello> read_hello(wire::Reader& reader);
void write(wire::Writer& writer, const Welcome& welcome);
Result<Welcome> read_welcome(wire::Reader& reader);

}  // namespace tally::group
