#include "adapters/mpi/host_ranks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "group/host.h"
#include "group/secret_text.h"
#include "net/socket.h"

namespace tally::mpi {
namespace {

std::int64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return static_cast<std::int64_t>(hash);
}

// One rank tells all others its host, its machine and its processors.
constexpr std::size_t kToldWords = 2 + std::tuple_size_v<CpuSet>;
using Told = std::array<std::int64_t, kToldWords>;

// The first rank of a host tells the others where to connect. Port 0: it found no port.
struct Meeting {
  std::uint16_t port = 0;
  Secret secret;
};
static_assert(sizeof(Meeting) == sizeof(std::uint16_t) + sizeof(Secret) &&
              std::is_trivially_copyable_v<Meeting>);  // it is sent as bytes

Meeting make_meeting() {
  const auto listener = net::Listener::bind({.host = "127.0.0.1", .port = 0});
  const auto secret = group::fresh_secret();
  if (!listener.has_value() || !secret.has_value()) return {};
  return {.port = listener->address().port, .secret = *secret};
}

Result<Meeting> agree(Communicator& host, Deadline by) {
  Meeting meeting = host.rank() == 0 ? make_meeting() : Meeting{};
  const std::span bytes(reinterpret_cast<std::uint8_t*>(&meeting), sizeof(meeting));
  TALLY_TRY(host.broadcast(bytes, 0, {.by = by}));
  if (meeting.port == 0)
    return make_error(ErrorCode::kSystem,
                      "the first rank of this host found no free port, or getrandom() failed");
  return meeting;
}

}  // namespace

int Hosts::size_at(Rank rank) const {
  return static_cast<int>(
      std::count(first_of.begin(), first_of.end(), first_of[static_cast<std::size_t>(rank)]));
}

int Hosts::index_at(Rank rank) const {
  return static_cast<int>(std::count(first_of.begin(), first_of.begin() + rank,
                                     first_of[static_cast<std::size_t>(rank)]));
}

bool Hosts::one_host() const {
  return std::all_of(first_of.begin(), first_of.end(), [](Rank first) { return first == 0; });
}

bool Hosts::all_alone() const {
  for (std::size_t rank = 0; rank < first_of.size(); ++rank)
    if (first_of[rank] != static_cast<Rank>(rank)) return false;
  return true;
}

Result<Hosts> find_hosts(Communicator& all, const std::string& host_label, Deadline by) {
  TALLY_TRY(const std::string host, group::host_identity(host_label));
  Told mine{hash_of(host), hash_of(group::host_name())};
  const CpuSet cpus = cpus_of_process();
  std::memcpy(mine.data() + 2, cpus.data(), sizeof(cpus));
  std::vector<std::int64_t> told(mine.size() * static_cast<std::size_t>(all.size()));
  TALLY_TRY(all.allgather(std::span<const std::int64_t>(mine), std::span(told), {.by = by}));
  Hosts hosts{.on_this_machine = 0};
  CpuSet together{};
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(all.size()); ++rank) {
    const auto of = [&told](std::size_t which) { return told.data() + which * kToldWords; };
    std::size_t first = 0;
    while (of(first)[0] != of(rank)[0]) ++first;
    hosts.first_of.push_back(static_cast<Rank>(first));
    if (of(rank)[1] != mine[1]) continue;
    ++hosts.on_this_machine;
    for (std::size_t word = 0; word < together.size(); ++word)
      together[word] |= static_cast<std::uint64_t>(of(rank)[2 + word]);
  }
  hosts.cores = usable_cores(together);
  return hosts;
}

Result<std::unique_ptr<collective::MemberJob>> join_inside(Communicator& host,
                                                           const JobOptions& options, Deadline by) {
  // Another process may take the port before the first rank listens on it again. The next attempt
  // uses another port.
  constexpr int kAttempts = 3;
  const SteadyClock clock;
  JobOptions inner = options;
  inner.engine = Engine::kTally;
  inner.transport = TransportKind::kShm;
  inner.coordinator.clear();
  inner.rank = host.rank();
  inner.size = host.size();
  inner.master_address = "127.0.0.1";
  Error last;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    TALLY_TRY(const Meeting meeting, agree(host, by));
    inner.master_port = meeting.port;
    inner.secret = meeting.secret;
    inner.join_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
        by.remaining(clock.now()) / (kAttempts + 1 - attempt));
    auto job = collective::join_group(inner);
    std::int32_t joined = job.has_value() ? 1 : 0;
    TALLY_TRY(host.allreduce(std::span<std::int32_t>(&joined, 1), ReduceOp::kMin, {.by = by}));
    if (joined == 1) return job;
    if (!job.has_value()) last = job.error();
  }
  return last;
}

}  // namespace tally::mpi
