#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "group/bodies.h"
#include "net/segment.h"
#include "net/socket.h"
#include "net/transport.h"

namespace tally::group {

// This rank's connections in one generation of the job.
struct Membership {
  Rank rank = 0;
  Welcome welcome;
  std::unique_ptr<net::Transport> transport;
  // Ranks that share a segment have the same host; every other rank has a host of its own.
  std::vector<int> host_of;
  std::vector<int> in_host;
  // Null if this rank is alone; shared with the users of its memory.
  std::shared_ptr<net::Segment> segment;
  std::byte* shared_note = nullptr;  // memory that all members of the host share

  int size() const { return static_cast<int>(welcome.members.size()); }
};

struct MembershipOptions {
  Rank rank = 0;  // in the previous membership, or as started
  int size = 1;
  std::uint32_t generation = 1;
  TransportKind transport = TransportKind::kAuto;
  int tcp_threads = 0;  // as JobOptions has it
  std::optional<Secret> secret;
  std::string host_label;
  wire::JobToken token{};
  std::vector<Rank> lost;
  // The host of the rendezvous, and its address.
  Rank meet_at = 0;
  net::Address meet_address;
  // Bytes of shared_note, by the number of ranks on a host.
  std::function<std::size_t(int members)> shared_bytes;
};

// Joins the rendezvous and connects with all members. `listener` is where other ranks reach this
// one; a rank without a listener gets one on the address from which it reached the host.
Result<Membership> form(const MembershipOptions& options, std::optional<net::Listener>& listener,
                        const Clock& clock, Deadline by);

}  // namespace tally::group
