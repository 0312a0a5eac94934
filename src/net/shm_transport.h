#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "net/frame_ring.h"
#include "net/segment.h"
#include "net/transport.h"

namespace tally::net {

// Frames through rings in a Segment: between processes of one host, or threads of one process.
class ShmTransport final : public Transport {
 public:
  struct Options {
    Rank rank = 0;              // in the job
    int size = 1;               // of the job
    std::vector<Rank> members;  // ranks on this host; their order numbers them in the segment
    std::uint32_t generation = 0;
    // One per member, readable when that process has ended; empty where members are threads.
    std::vector<Descriptor> processes;
  };

  ShmTransport(std::shared_ptr<Segment> segment, Options options, const Clock& clock);
  ~ShmTransport() override;

  Rank rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  void post(Rank to, Outgoing& message) override;
  void withdraw(Rank to, Outgoing& message) override;
  bool progress(Receiver& receiver) override;
  void prepare_wait() override;
  void cancel_wait() override;
  void wait(Deadline by) override;
  void wake() override;
  void close() override;
  const Counters& counters() const override { return counters_; }

  // Checks whether the process of a member has ended, and reports it lost.
  void check_processes();

 private:
  struct Peer {
    Rank rank;
    FrameRing out;
    FrameRing in;
    std::deque<Outgoing*> queue;
    std::uint32_t frames_out = 0;
    std::uint32_t frames_in = 0;
    bool gone = false;  // lost or departed: nothing is sent to it or read from it
  };
  Peer& peer_of(Rank rank);
  MemberLine& line_of(const Peer& peer) const;
  int member_of(Rank rank) const;
  bool push_queued(Peer& peer);
  bool push_frames_of(Peer& peer, Outgoing& message);
  bool read_frames(Peer& peer, Receiver& receiver);
  Result<bool> read_one(Peer& peer, Receiver& receiver);
  void notice_loss(Peer& peer, Receiver& receiver);
  void abandon(Peer& peer);

  const std::shared_ptr<Segment> segment_;  // shared with the buffers in it
  const Options options_;
  const Clock& clock_;
  const int self_;                            // this member's number on the host
  std::vector<std::unique_ptr<Peer>> peers_;  // by member; null for this one
  Counters counters_;
  bool closed_ = false;
};

}  // namespace tally::net
