#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "net/router.h"
#include "tally/communicator.h"

namespace tally::collective {

// A message that an operation expects. The operation owns it and keeps it in place until it is done
// or until Mailbox::withdraw().
struct Incoming {
  Rank from = kNoRank;  // in the communicator
  bool point = false;  // a send/receive message: `sequence` is the tag, `message` is set on arrival
  std::uint32_t sequence = 0;
  std::uint32_t message = 0;
  wire::Signature signature;
  std::byte* into = nullptr;
  std::size_t bytes = 0;
  bool combine = false;  // into = op(into, arriving) instead of into = arriving
  DataType type = DataType::kUInt8;
  ReduceOp op = ReduceOp::kSum;

  std::size_t received_bytes = 0;
  bool started = false;
  bool done = false;
};

// The known state of a peer, from its last answer to a query and from its messages.
struct PeerStatus {
  std::uint32_t entered = 0;  // one more than the last operation that it is known to have entered
  bool answered = false;      // since the last ask()
  bool running = false;
  std::uint32_t sequence = 0;
  wire::Signature signature;
  Rank waits_for = kNoRank;
};

// The channel of one communicator: matches arriving frames with the messages that operations
// expect, keeps early frames, and holds the communicator's failure. Ranks are those of the
// communicator. Threads: everything but failed() needs Router::mutex.
class Mailbox final : public net::Channel {
 public:
  // `members`: the job's rank of each rank of the communicator.
  Mailbox(net::Router& router, std::uint32_t id, std::vector<Rank> members, Rank self);
  ~Mailbox() override;

  net::Router& router() { return router_; }
  int size() const { return static_cast<int>(members_.size()); }
  Rank self() const { return self_; }

  // The current operation: answers to queries report it, and arriving frames must have its
  // signature.
  void begin(std::uint32_t sequence, const wire::Signature& signature);
  void finish() { running_ = false; }
  void waits_for(Rank rank) { waits_for_ = rank; }

  // Numbers the send/receive messages to one peer.
  std::uint32_t next_point_number(Rank to) { return points_sent_[static_cast<std::size_t>(to)]++; }

  void expect(Incoming& incoming);
  void send(Rank to, net::Outgoing& message);
  // After a failure: releases the memory that expect() and send() were given.
  void withdraw(Incoming& incoming);
  void withdraw(Rank to, net::Outgoing& message);

  // The first failure counts and is sent to all other members, even if it came from one of them,
  // since that member may have reached only some. A failure of this rank, which is kSystem or
  // kExhausted with its number, is kPeerLost to the others.
  void fail(const Error& error);
  // Closes this rank's side: operations under way end with kClosed. The peers are not told.
  void close();
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  const Error& failure() const { return *failure_; }

  // Queries the state of all members; the answers arrive in status().
  void ask();
  const std::vector<PeerStatus>& status() const { return status_; }
  bool has_departed(Rank rank) const { return departed_[static_cast<std::size_t>(rank)]; }

  std::span<std::byte> place(Rank from, const wire::FrameHeader& header) override;
  net::Acceptance deliver(Rank from, const wire::FrameHeader& header,
                          std::span<const std::byte> payload) override;
  void lost(Rank peer, const Error& why) override;
  void departed(Rank peer) override;

 private:
  struct Stashed {
    Rank from;
    wire::FrameHeader header;
    std::vector<std::byte> payload;
  };
  struct Note {  // a control message on its way out
    Rank to;
    std::vector<std::byte> body;
    net::Outgoing outgoing;
  };

  Rank rank_of(Rank job_rank) const;
  Incoming* find(Rank from, const wire::FrameHeader& header);
  // Adds the frame to `incoming`; an error if the frame does not fit.
  Result<void> take(Incoming& incoming, Rank from, const wire::FrameHeader& header,
                    std::span<const std::byte> payload);
  net::Acceptance deliver_message(Rank from, const wire::FrameHeader& header,
                                  std::span<const std::byte> payload);
  void deliver_abort(Rank from, std::span<const std::byte> payload);
  void note(Rank to, const wire::FrameHeader& header, std::vector<std::byte> body);
  Error told_to_others(const Error& error) const;
  Error mismatch(Rank from, const wire::Signature& mine, const wire::Signature& theirs) const;

  net::Router& router_;
  const std::uint32_t id_;
  const std::vector<Rank> members_;
  const Rank self_;
  std::vector<Incoming*> expected_;
  std::deque<Stashed> stash_;
  std::size_t stashed_bytes_ = 0;
  std::list<Note> notes_;
  std::vector<PeerStatus> status_;
  std::vector<std::uint32_t> points_sent_;
  std::vector<bool> departed_;
  std::vector<bool> lost_;
  bool running_ = false;
  std::uint32_t sequence_ = 0;
  wire::Signature signature_;
  Rank waits_for_ = kNoRank;
  std::atomic<bool> failed_{false};
  std::optional<Error> failure_;
};

// "rank 0 called allreduce sum of 8 float32, rank 1 called barrier".
std::string describe(const wire::Signature& signature);

}  // namespace tally::collective
