#pragma once
#include <atomic>
#include <deque>
#include <optional>
#include <vector>

#include "net/transport.h"
#include "sim/network.h"

namespace tally::sim {

// A rank's Transport over a simulated Network, which outlives it. Payloads may have a size and no
// memory: they take their time and arrive without memory. A rank that the script has killed sees
// all its peers lost, with kClosed and its own rank. A transport that is destroyed without close()
// looks to the others like a process that has ended.
class SimTransport final : public net::Transport {
 public:
  SimTransport(Network& network, Rank rank, std::uint32_t generation = 0);
  ~SimTransport() override;

  Rank rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  void post(Rank to, net::Outgoing& message) override;
  void withdraw(Rank to, net::Outgoing& message) override;
  bool progress(net::Receiver& receiver) override;
  void wait(Deadline by) override;
  void wake() override { network_.wake(rank_); }
  void close() override;
  const net::Counters& counters() const override { return counters_; }

 private:
  struct Peer {
    std::deque<net::Outgoing*> queue;
    std::optional<Frame> held;  // offered, and to be offered again
    bool gone = false;          // lost or departed
  };

  Peer& peer_of(Rank rank);
  bool send_queued(Rank to);
  bool send_frame(Rank to, net::Outgoing& message);
  bool read(Rank from, net::Receiver& receiver);
  bool offer(Rank from, const Frame& frame, net::Receiver& receiver);
  void abandon(Rank peer);
  bool report_death(const Error& death, net::Receiver& receiver);

  Network& network_;
  const Rank rank_;
  const std::uint32_t generation_;
  std::vector<Peer> peers_;  // by rank; this rank's own is unused
  net::Counters counters_;
  std::atomic<int> idle_looks_{0};  // since the last progress or wait()
  bool closed_ = false;
};

}  // namespace tally::sim
