#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "server/client/client_node.h"
#include "server/protocol/node.h"
#include "sim/cluster.h"

// A directory, servers and workers in one process and in virtual time. Rank 0 is the directory,
// then come the servers, then the workers; a member's number is its rank.
namespace tally::sim {

// The link between two ranks breaks once: what is on its way is gone, both ends hear of it, and it
// comes about again.
struct Break {
  Rank one = kNoRank;
  Rank other = kNoRank;
  TimePoint at{};
};

// The links of a run, shared by all ranks. One rank runs at a time, so nothing is locked.
class Links {
 public:
  explicit Links(std::vector<Break> breaks) : breaks_(std::move(breaks)) {}
  // How often the link had broken by `now`.
  std::uint32_t breaks(Rank one, Rank other, TimePoint now) const;

 private:
  std::vector<Break> breaks_;
};

// A rank's NodeTransport: messages travel as the bytes of their header and payload.
class SimNodeTransport final : public server::NodeTransport, private net::Receiver {
 public:
  SimNodeTransport(Member& me, const Links& links) : me_(me), links_(links) {}

  void connect(const server::ServerInfo& server) override;
  void disconnect(server::NodeId id) override;
  void send(server::NodeId to, const server::MessageHeader& header,
            std::vector<std::byte> payload) override;
  void send_from(server::NodeId to, const server::MessageHeader& header,
                 std::span<const std::byte> payload, std::span<std::byte> reply) override;
  void send_written(server::NodeId to, const server::MessageHeader& header,
                    std::size_t bytes) override;

  // Has `node` do what there is to do, then waits for more until `by` or the next tick.
  void turn(server::Node& node, Deadline by);
  // The script has killed this rank.
  bool is_dead() const { return dead_; }

  // Each message that is sent or arrives, where set.
  std::function<void(server::NodeId peer, const server::MessageHeader&, bool sent)> on_traffic;

 private:
  struct Letter {
    std::vector<std::byte> bytes;
    net::Outgoing outgoing;
    Rank to = kNoRank;
  };
  struct Peer {
    bool linked = false;
    bool wanted = false;  // connect() was called
    bool gone = false;
    std::uint32_t breaks = 0;  // of which the node has heard
    std::vector<std::byte> arriving;
  };

  std::span<std::byte> place(Rank, const wire::FrameHeader&) override { return {}; }
  net::Acceptance deliver(Rank from, const wire::FrameHeader& header,
                          std::span<const std::byte> payload) override;
  void lost(Rank rank, const Error& why) override;
  void take(Rank from, std::span<const std::byte> bytes);
  void break_links();
  void link_wanted();
  void tell_lost(Rank rank, const Error& why);
  Peer& peer(Rank rank);

  Member& me_;
  const Links& links_;
  std::list<Letter> letters_;
  std::map<Rank, Peer> peers_;
  server::Node* node_ = nullptr;  // during turn()
  bool dead_ = false;
};

// The interface for a worker's body: its node, and calls that wait.
class ServedWorker {
 public:
  ServedWorker(Member& me, const Links& links, int rank);

  Member& member() { return me_; }
  server::ClientNode& node() { return node_; }
  SimNodeTransport& transport() { return transport_; }
  int rank() const { return rank_; }
  bool is_dead() const { return transport_.is_dead(); }
  TimePoint now() const { return me_.clock().now(); }

  Result<void> join();
  // Until the ticket is done; kTimeout after the cluster's timeout, kClosed if the script has
  // killed this rank.
  Result<void> await(server::Ticket ticket);
  Result<server::Completion> wait(server::Ticket ticket);
  Result<server::TableId> define(const server::TableSpec& spec);
  Result<std::vector<double>> agree(std::span<const double> values);
  Result<server::Client::Size> size(server::TableId table);
  // Computes for so long: what arrives meanwhile is taken.
  Result<void> sleep(Duration duration);
  Result<void> sleep_until(TimePoint when, const std::function<bool()>& or_until = {});

 private:
  Member& me_;
  const int rank_;
  SimNodeTransport transport_;
  server::ClientNode node_;
};

struct ServedClusterOptions {
  int servers = 1;
  int spares = 0;  // of the servers: the last ones, which are not waited for at the beginning
  int workers = 1;
  int replicas = 0;
  std::uint64_t seed = 1;
  Conditions conditions = {};
  Duration timeout = std::chrono::seconds(30);
  std::chrono::milliseconds silence_limit = std::chrono::seconds(5);
  std::chrono::milliseconds failover_limit = std::chrono::seconds(30);
  // Whether the directory can see that the processes of servers live; a stopped one does.
  bool servers_live = false;
  std::vector<Break> breaks = {};
  // Of the workers in the job; none: 0, 1, 2, ...
  std::vector<int> worker_ranks = {};
};

class ServedCluster {
 public:
  explicit ServedCluster(const ServedClusterOptions& options);

  static constexpr Rank kDirectoryRank = 0;
  Rank server(int index) const { return 1 + index; }
  Rank worker(int index) const { return 1 + options_.servers + index; }
  Cluster& faults() { return cluster_; }
  // This one begins so much later.
  void come_late(Rank rank, Duration late) { late_[rank] = late; }

  // One result for each worker. All servers and the directory serve until the last worker has
  // ended.
  std::vector<Result<void>> run(const std::function<Result<void>(ServedWorker&)>& body);

  // After run(): the messages of the members, with time and rank.
  const std::vector<std::string>& events() const { return events_; }
  TimePoint ended() const { return ended_; }

 private:
  Result<void> be_directory(Member& me);
  Result<void> be_server(Member& me);
  Result<void> be_worker(Member& me, const std::function<Result<void>(ServedWorker&)>& body);
  server::EventSink sink(Member& me);

  const ServedClusterOptions options_;
  const Links links_;
  Cluster cluster_;
  std::map<Rank, Duration> late_;
  // One rank runs at a time.
  int workers_left_ = 0;
  std::vector<std::string> events_;
  TimePoint ended_{};
};

}  // namespace tally::sim
