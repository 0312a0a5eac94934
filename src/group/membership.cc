#include "group/membership.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/errors.h"
#include "base/log.h"
#include "group/host.h"
#include "group/machine_share.h"
#include "group/refusals.h"
#include "group/rendezvous.h"
#include "net/mesh.h"
#include "net/routed_transport.h"
#include "net/segment_share.h"
#include "net/shm_transport.h"
#include "net/tcp_transport.h"

namespace tally::group {
namespace {

bool is_loopback(const net::Address& address) {
  return address.host == "::1" || address.host.rfind("127.", 0) == 0;
}

// Connects one rank with the members that a Welcome lists.
class Connector {
 public:
  Connector(const MembershipOptions& options, net::Listener& listener,
            const Descriptor& local_listener, const Clock& clock, Deadline by)
      : options_(options),
        listener_(listener),
        local_listener_(local_listener),
        clock_(clock),
        by_(by) {}

  Result<void> connect(const Welcome& welcome) {
    membership_.welcome = welcome;
    TALLY_TRY(find_self());
    find_hosts();
    std::unique_ptr<net::Transport> shm;
    std::unique_ptr<net::Transport> network;
    if (local_.size() > 1) {
      TALLY_TRY(shm, share_memory());
    }
    const bool alone = static_cast<int>(local_.size()) == membership_.size() && shm;
    if (!alone) {
      TALLY_TRY(network, connect_network());
    }
    if (shm && network) {
      std::vector<bool> inside;
      for (const int host : membership_.host_of) inside.push_back(host == own_host());
      membership_.transport = std::make_unique<net::RoutedTransport>(
          std::move(shm), std::move(network), std::move(inside));
    } else {
      membership_.transport = shm ? std::move(shm) : std::move(network);
    }
    return {};
  }

  Membership take() { return std::move(membership_); }

 private:
  const Hello& member(Rank rank) const {
    return membership_.welcome.members[static_cast<std::size_t>(rank)];
  }
  int own_host() const { return membership_.host_of[static_cast<std::size_t>(membership_.rank)]; }

  Result<void> find_self() {
    for (Rank rank = 0; rank < membership_.size(); ++rank) {
      if (member(rank).rank != options_.rank) continue;
      membership_.rank = rank;
      return {};
    }
    return make_error(ErrorCode::kStale, "the new membership leaves this rank out");
  }

  bool shares_memory() const {
    return options_.transport == TransportKind::kAuto || options_.transport == TransportKind::kShm;
  }

  void find_hosts() {
    std::map<std::string, int> hosts;
    std::vector<int> filled;
    for (Rank rank = 0; rank < membership_.size(); ++rank) {
      const std::string name = shares_memory() ? member(rank).host : std::to_string(rank);
      const auto [place, is_new] = hosts.emplace(name, static_cast<int>(hosts.size()));
      if (is_new) filled.push_back(0);
      membership_.host_of.push_back(place->second);
      membership_.in_host.push_back(filled[static_cast<std::size_t>(place->second)]++);
    }
    for (Rank rank = 0; rank < membership_.size(); ++rank)
      if (membership_.host_of[static_cast<std::size_t>(rank)] == own_host()) local_.push_back(rank);
  }

  net::LocalPeer local_peer(Rank rank) const {
    return {.rank = rank, .pid = static_cast<pid_t>(member(rank).pid)};
  }

  Result<std::unique_ptr<net::Transport>> share_memory() {
    const net::Segment::Layout layout{.members = static_cast<int>(local_.size())};
    const std::size_t shared_bytes = options_.shared_bytes(layout.members);
    std::uint64_t note = 0;
    if (local_.front() == membership_.rank) {
      TALLY_TRY(membership_.segment, net::Segment::create(layout));
      TALLY_TRY(std::byte* const shared, membership_.segment->allocate(0, shared_bytes));
      note = membership_.segment->name_of(shared, shared_bytes);
      std::vector<net::LocalPeer> peers;
      for (const Rank rank : local_)
        if (rank != membership_.rank) peers.push_back(local_peer(rank));
      TALLY_TRY(
          net::give_segment(local_listener_, membership_.segment->descriptor(), note, peers, by_));
    } else {
      const Rank owner = local_.front();
      TALLY_TRY(net::GivenSegment given,
                net::take_segment(member(owner).local_socket, local_peer(owner), by_));
      note = given.note;
      TALLY_TRY(membership_.segment, net::Segment::open(std::move(given.memory), layout));
    }
    membership_.shared_note = membership_.segment->find(note, shared_bytes);
    if (membership_.shared_note == nullptr) return corrupt("the shared segment is not as agreed");
    std::vector<Descriptor> processes;
    for (const Rank rank : local_) {
      TALLY_TRY(Descriptor process, net::watch_process(local_peer(rank)));
      processes.push_back(std::move(process));
    }
    return std::unique_ptr<net::Transport>(std::make_unique<net::ShmTransport>(
        membership_.segment,
        net::ShmTransport::Options{.rank = membership_.rank,
                                   .size = membership_.size(),
                                   .members = local_,
                                   .generation = membership_.welcome.generation,
                                   .processes = std::move(processes)},
        clock_));
  }

  // Plain TCP between hosts must be asked for by name.
  Result<bool> wants_tls() const {
    if (options_.transport == TransportKind::kTcp) return false;
    if (options_.secret) return true;
    for (const Hello& other : membership_.welcome.members) {
      if (is_loopback(other.listens)) continue;
      return invalid(
          "rank {} is at {}: between hosts a job needs a secret, or transport "
          "tcp asked for by name",
          other.rank, to_string(other.listens));
    }
    return false;
  }

  bool wants_sender_thread() const {
    if (options_.tcp_threads != 0) return options_.tcp_threads > 1;
    const auto& hosts = membership_.host_of;
    return has_a_core_for_sending(machine_share(membership_.welcome, membership_.rank),
                                  *std::max_element(hosts.begin(), hosts.end()) + 1);
  }

  Result<std::unique_ptr<net::Transport>> connect_network() {
    if (options_.transport == TransportKind::kShm && membership_.size() > 1) {
      return invalid("transport shm was asked for, and not all ranks are on one host");
    }
    TALLY_TRY(const bool tls, wants_tls());
    net::MeshOptions mesh{.rank = membership_.rank,
                          .generation = membership_.welcome.generation,
                          .token = membership_.welcome.token};
    if (tls) mesh.secret = options_.secret;
    for (Rank rank = 0; rank < membership_.size(); ++rank) {
      mesh.addresses.push_back(member(rank).listens);
      mesh.wanted.push_back(membership_.host_of[static_cast<std::size_t>(rank)] != own_host());
    }
    mesh.refused = [this](const Error& why) {
      if (const auto sentence = refusals_.add("another process", why.message, clock_.now()))
        log_warning(*sentence);
    };
    TALLY_TRY(auto streams, net::connect_mesh(listener_, mesh, by_));
    TALLY_TRY(auto transport,
              net::TcpTransport::make({.rank = membership_.rank,
                                       .generation = mesh.generation,
                                       .options = {.sender_thread = wants_sender_thread()}},
                                      std::move(streams)));
    return std::unique_ptr<net::Transport>(std::move(transport));
  }

  const MembershipOptions& options_;
  net::Listener& listener_;
  const Descriptor& local_listener_;
  const Clock& clock_;
  const Deadline by_;
  Refusals refusals_;
  Membership membership_;
  std::vector<Rank> local_;  // the ranks of this host
};

}  // namespace

Result<Membership> form(const MembershipOptions& options, std::optional<net::Listener>& listener,
                        const Clock& clock, Deadline by) {
  // Without the secret no other rank could answer.
  if (options.transport == TransportKind::kTls && !options.secret)
    return invalid("transport tls needs the job's secret");
  TALLY_TRY(const std::string local_name, random_name());
  TALLY_TRY(const Descriptor local_listener, net::listen_locally(local_name));
  RendezvousOptions rendezvous;
  rendezvous.token = options.token;
  rendezvous.secret = options.secret;
  rendezvous.host = options.meet_at;
  rendezvous.at = options.meet_address;
  Hello& hello = rendezvous.hello;
  hello.rank = options.rank;
  hello.size = options.size;
  hello.generation = options.generation;
  hello.transport = options.transport;
  hello.host_name = host_name();
  hello.pid = getpid();
  hello.local_socket = local_name;
  hello.cpus = cpus_of_process();
  hello.lost = options.lost;
  TALLY_TRY(hello.host, host_identity(options.host_label));

  std::optional<Connector> connector;
  const Connect connect = [&](const Welcome& welcome) {
    connector.emplace(options, *listener, local_listener, clock, by);
    return connector->connect(welcome);
  };
  if (options.rank == options.meet_at) {
    if (!listener) {
      TALLY_TRY(listener, net::Listener::bind(options.meet_address));
    }
    hello.listens = listener->address();
    TALLY_TRY(host_rendezvous(*listener, rendezvous, connect, by));
  } else {
    const auto introduce = [&listener](const net::Address& local, Hello& mine) -> Result<void> {
      if (!listener) {
        TALLY_TRY(listener, net::Listener::bind({.host = local.host, .port = 0}));
      }
      mine.listens = listener->address();
      return {};
    };
    TALLY_TRY(join_rendezvous(rendezvous, introduce, connect, by));
  }
  return connector->take();
}

}  // namespace tally::group
