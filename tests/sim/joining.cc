#include <gtest/gtest.h>

#include <list>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "group/rendezvous_state.h"
#include "sim/cluster.h"
#include "wire/error_body.h"

// The rendezvous in virtual time, while ranks die, come late or lose their link to the host: either
// all living ranks are accepted, or all receive the same error about the right rank.

namespace tally::sim {
namespace {

using namespace std::chrono_literals;

// Receives messages by sender, and sends messages.
class Post final : public net::Receiver {
 public:
  explicit Post(Member& me) : me_(me) {}

  void send(Rank to, std::vector<std::byte> bytes) {
    Letter& letter = letters_.emplace_back();
    letter.bytes = std::move(bytes);
    letter.outgoing.header.kind = wire::FrameKind::kControl;
    letter.outgoing.payload = letter.bytes;
    me_.transport().post(to, letter.outgoing);
  }

  // The next message; nothing if none arrives by `by`.
  std::optional<std::vector<std::byte>> next(Deadline by) {
    while (arrived_.empty() && !by.passed(me_.clock().now())) {
      if (!me_.transport().progress(*this)) me_.transport().wait(by);
    }
    if (arrived_.empty()) return std::nullopt;
    std::vector<std::byte> bytes = std::move(arrived_.front());
    arrived_.pop_front();
    return bytes;
  }

  std::span<std::byte> place(Rank, const wire::FrameHeader&) override { return {}; }
  net::Acceptance deliver(Rank, const wire::FrameHeader& header,
                          std::span<const std::byte> payload) override {
    if (header.kind == wire::FrameKind::kControl)
      arrived_.emplace_back(payload.begin(), payload.end());
    return net::Acceptance::kTaken;
  }
  void lost(Rank, const Error&) override {}

 private:
  struct Letter {
    std::vector<std::byte> bytes;
    net::Outgoing outgoing;
  };
  Member& me_;
  std::list<Letter> letters_;
  std::list<std::vector<std::byte>> arrived_;
};

group::Hello hello_of(const Member& me) {
  group::Hello hello;
  hello.rank = me.rank();
  hello.size = me.size();
  return hello;
}

Result<void> gather(group::RendezvousState& state, Post& post, Deadline by) {
  while (!state.complete()) {
    const auto bytes = post.next(by);
    if (!bytes) return state.error_at_deadline();
    wire::Reader reader(*bytes);
    TALLY_TRY(const group::Hello hello, wire::read_fields<group::Hello>(reader));
    TALLY_TRY(state.arrive(hello));
  }
  return {};
}

Result<void> host(Member& me) {
  group::RendezvousState state(me.size(), 1);
  Post post(me);
  TALLY_TRY(state.arrive(hello_of(me)));
  const Result<void> verdict = gather(state, post, me.deadline());
  for (Rank rank = 1; rank < me.size(); ++rank) {
    post.send(rank,
              verdict.has_value() ? std::vector<std::byte>{} : wire::encode_error(verdict.error()));
  }
  post.next(me.clock().after(1s));  // until all messages are sent
  return verdict;
}

Result<void> guest(Member& me, Duration late) {
  Post post(me);
  me.sleep(late);
  wire::Writer writer;
  wire::write_fields(writer, hello_of(me));
  post.send(0, writer.take());
  const auto answer = post.next(me.clock().after(60s));
  if (!answer) return Error{.code = ErrorCode::kTimeout, .peer = 0, .message = "no verdict"};
  if (answer->empty()) return {};
  Error verdict;
  TALLY_TRY(wire::decode_error(*answer, &verdict));
  return verdict;
}

TEST(SimJoining, AllWhoLiveGetTheSameVerdictAboutTheRightRank) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const int ranks = 2 + static_cast<int>(rng.below(7));
    const auto victim = static_cast<Rank>(1 + rng.below(static_cast<std::uint64_t>(ranks - 1)));
    const std::uint64_t fault = rng.below(3);  // it dies first; its link is cut; it is only late
    Cluster cluster({.ranks = ranks, .seed = rng.next(), .timeout = 5s});
    if (fault == 0) cluster.kill({.rank = victim, .before_frame = 0});
    if (fault == 1) cluster.cut({.one = 0, .other = victim, .from = TimePoint(0)});
    const Duration late =
        fault == 2 ? Duration(static_cast<Duration::rep>(rng.below(4'000'000'000))) : 0ns;
    const Outcome outcome = cluster.run([&](Member& me) {
      return me.rank() == 0 ? host(me) : guest(me, me.rank() == victim ? late : 0ns);
    });
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (rank == victim && fault != 2) continue;
      ASSERT_EQ(outcome[rank].has_value(), fault == 2) << rank;
      if (fault == 2) continue;
      EXPECT_EQ(outcome[rank].error().code, ErrorCode::kTimeout);
      EXPECT_EQ(outcome[rank].error().peer, victim) << to_string(outcome[rank].error());
    }
  }
}

}  // namespace
}  // namespace tally::sim
