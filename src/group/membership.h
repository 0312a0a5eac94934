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
  // Ranks that share a segment have one host; all others are alone on theirs.
  std::vector<int> host_of;
  std::vector<int> in_host;
  // Null if this rank is alone; shared with what lives in it.
  std::shared_ptr<net::Segment> segment;
  std::byte* shared_note = nullptr;  // memory that all members of the host know of

  int size() const { return static_cast<int>(welcome.members.size()); }
};

struct MembershipOptions {
  Rank rank = 0;  // in the membership before, or as started
  int size = 1;
  std::uint32_t generation = 1;
  TransportKind transport = TransportKind::kAuto;
  std::optional<Secret> secret;
  std::string host_label;
  wire::JobToken token{};
  std::vector<Rank> lost;
  // The rank to meet at, and where it listens.
  Rank meet_at = 0;
  net::Address meet_address;
  // Bytes of segment memory that every host's members get a common pointer to.
  std::function<std::size_t(int members)> shared_bytes;
};

// Meets the others and connects with all of them. `listener` is where this rank can be reached; a
// rank that has none yet gets one on the address by which it reached the meeting point.
Result<Membership> form(const MembershipOptions& options, std::optional<net::Listener>& listener,
                        const Clock& clock, Deadline by);

}  // namespace tally::group
