#include "exchange/lane/lane_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>

#include "base/rng.h"
#include "exchange/group/encoded_update_test_support.h"
#include "exchange/lane/sliced_bucket.h"

namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

// A lane of two members, with a peer that sends scripted bytes.
class ScriptedPeer final : public Communicator {
 public:
  explicit ScriptedPeer(Rank rank) : rank_(rank) {}

  std::vector<std::byte> there;         // the peer's parcel for this rank
  std::vector<std::byte> back;          // the peer's part in a gather
  std::optional<std::int64_t> told;     // a wrong size for it
  std::vector<std::int64_t> order{};    // the buckets that the peer announces as first member
  std::vector<std::byte> sent_there{};  // the parcel that this rank sent
  std::vector<std::byte> sent_back{};

  Rank rank() const override { return rank_; }
  int size() const override { return 2; }
  Result<void> run(const Request& request) override {
    if (request.operation == Operation::kBroadcast) {
      if (order.empty()) return closed();
      *static_cast<std::int64_t*>(request.output) = order.front();
      order.erase(order.begin());
      return {};
    }
    if (request.operation == Operation::kAllToAll) return exchange(request, there, sent_there);
    return gather(request);
  }
  Handle start(const Request& /*request*/) override { return Handle(nullptr); }
  Result<SharedBuffer> allocate(std::size_t /*bytes*/) override { return closed(); }
  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& /*buffer*/,
                                                  Deadline /*by*/) override {
    return closed();
  }
  Result<std::unique_ptr<Communicator>> split(int /*colour*/, int /*key*/,
                                              Deadline /*by*/) override {
    return closed();
  }
  void close() override {}
  Traffic traffic() const override { return {}; }
  std::string recent_operations() const override { return {}; }

 private:
  static Error closed() { return {.code = ErrorCode::kClosed, .message = "nothing of that"}; }
  // Fills the peer's place in an output with one part per rank.
  void answer(const Request& request, std::size_t own, std::size_t others,
              const std::vector<std::byte>& bytes) const {
    auto* const out = static_cast<std::byte*>(request.output) + (rank_ == 0 ? own : 0);
    std::fill_n(out, others, std::byte{0});
    std::copy_n(bytes.begin(), std::min(bytes.size(), others), out);
  }
  Result<void> exchange(const Request& request, const std::vector<std::byte>& bytes,
                        std::vector<std::byte>& sent) const {
    const auto* const input = static_cast<const std::byte*>(request.input);
    const auto self = static_cast<std::size_t>(rank_);
    if (request.type == DataType::kInt64) {
      auto* const sizes = static_cast<std::int64_t*>(request.output);
      sizes[self] = static_cast<const std::int64_t*>(request.input)[self];
      sizes[1 - self] = told.value_or(static_cast<std::int64_t>(bytes.size()));
      return {};
    }
    const std::size_t first = request.counts[0];
    sent.assign(input + (self == 0 ? first : 0),
                input + (self == 0 ? first + request.counts[1] : first));
    std::copy_n(
        input + (self == 0 ? 0 : first), request.counts[self],
        static_cast<std::byte*>(request.output) + (self == 0 ? 0 : request.receive_counts[0]));
    answer(request, request.receive_counts[0], request.receive_counts[1 - self], bytes);
    return {};
  }
  Result<void> gather(const Request& request) {
    const auto self = static_cast<std::size_t>(rank_);
    const auto* const input = static_cast<const std::byte*>(request.input);
    if (request.type == DataType::kInt64) {
      auto* const sizes = static_cast<std::int64_t*>(request.output);
      sizes[self] = *static_cast<const std::int64_t*>(request.input);
      sizes[1 - self] = told.value_or(static_cast<std::int64_t>(back.size()));
      return {};
    }
    sent_back.assign(input, input + request.counts[self]);
    std::copy_n(input, request.counts[self],
                static_cast<std::byte*>(request.output) + (self == 0 ? 0 : request.counts[0]));
    answer(request, request.counts[0], request.counts[1 - self], back);
    return {};
  }

  const Rank rank_;
};

// One of two members that have a matrix of two runs, one run each, and a vector.
class LaneExchangeMember {
 public:
  LaneExchangeMember(const std::string& codec, int number)
      : spec_(spec_of(codec)),
        peer(number),
        lane_(&peer, {10, 11}),
        bucket_({{.name = "w", .shape = {70, 1000}}, {.name = "b", .shape = {40}}}),
        values_(70048 + 40) {
    layout_.count = values_.size();
    layout_.entries = {{.parameter = 0, .range = {0, 70000}},
                       {.parameter = 1, .range = {70048, 70088}}};
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = gradient_value(0, i, 0, number);
    codec_ = std::make_unique<SlicedBucket>(BucketFacts{.bucket = layout_,
                                                        .local = {0, layout_.count},
                                                        .parameters = bucket_,
                                                        .spec = spec_,
                                                        .senders = senders_,
                                                        .self = {.number = number, .of = 2}});
  }

  LaneStep step() {
    return {.weight = 3, .used = used_, .values = std::as_writable_bytes(std::span(values_))};
  }
  Result<void> first() { return codec_->first(lane_, step()); }
  Result<void> second() { return codec_->second(lane_, step()); }
  const std::vector<float>& values() const { return values_; }

 private:
  const plan::CodecSpec spec_;
  const std::vector<codec::SenderFacts> senders_ = std::vector<codec::SenderFacts>(1);

 public:
  ScriptedPeer peer;

 private:
  Lane lane_;
  BucketLayout layout_;
  const std::vector<ParameterInfo> bucket_;
  const std::vector<std::uint8_t> used_ = {1, 1};
  std::vector<float> values_;
  std::unique_ptr<SlicedBucket> codec_;
};

// The correct messages from member 1 to member 0, there and back.
struct Messages {
  std::vector<std::byte> there;
  std::vector<std::byte> back;
};
Messages good_messages(const std::string& codec) {
  LaneExchangeMember other(codec, 1);
  LaneExchangeMember first(codec, 0);
  first.peer.there = std::vector<std::byte>(8);
  EXPECT_TRUE(first.first().has_value());
  other.peer.there = first.peer.sent_there;
  EXPECT_TRUE(other.first().has_value());
  // The script has no answer for the way back; the member has sent its own part before it fails.
  EXPECT_FALSE(other.second().has_value());
  EXPECT_FALSE(other.peer.sent_back.empty());
  return {.there = other.peer.sent_there, .back = other.peer.sent_back};
}

class CorruptLaneOf : public testing::TestWithParam<std::string> {};

TEST_P(CorruptLaneOf, TakesWhatAHealthyPeerSends) {
  const Messages good = good_messages(GetParam());
  LaneExchangeMember member(GetParam(), 0);
  member.peer.there = good.there;
  member.peer.back = good.back;
  ASSERT_TRUE(member.first().has_value());
  const auto second = member.second();
  ASSERT_TRUE(second.has_value()) << to_string(second.error());
  EXPECT_THAT(member.values(),
              testing::Each(testing::Truly([](float value) { return std::isfinite(value); })));
}

// Invalid weights.
TEST_P(CorruptLaneOf, RefusesWeightsThatAreNone) {
  const Messages good = good_messages(GetParam());
  for (const double weight : {-1.0, std::nan(""), HUGE_VAL}) {
    LaneExchangeMember member(GetParam(), 0);
    member.peer.there = good.there;
    member.peer.back = good.back;
    std::memcpy(member.peer.there.data(), &weight, sizeof(weight));
    ASSERT_TRUE(member.first().has_value());
    const auto second = member.second();
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(second.error().peer, 11);
  }
}

// Arbitrary bytes: truncated, changed in one place, or random. Some of them are valid encodings.
TEST_P(CorruptLaneOf, SurvivesAnyBytes) {
  const Messages good = good_messages(GetParam());
  Rng rng(5);
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    LaneExchangeMember member(GetParam(), 0);
    member.peer.there = good.there;
    member.peer.back = good.back;
    std::vector<std::byte>& bytes = round % 2 == 0 ? member.peer.there : member.peer.back;
    const auto at = static_cast<std::size_t>(rng.below(bytes.size()));
    if (round % 3 == 0) bytes.resize(at);
    if (round % 3 == 1) bytes[at % 24] ^= static_cast<std::byte>(1 + rng.below(255));
    if (round % 3 == 2)
      for (std::size_t i = round % 2 == 0 ? 8 : 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(rng.below(256));
    auto outcome = member.first();
    if (outcome) outcome = member.second();
    if (outcome) continue;
    ++refused;
    EXPECT_EQ(outcome.error().code, ErrorCode::kCorrupt) << to_string(outcome.error());
    EXPECT_EQ(outcome.error().peer, 11) << to_string(outcome.error());
  }
  EXPECT_GT(refused, 20);
}

INSTANTIATE_TEST_SUITE_P(All, CorruptLaneOf,
                         testing::Values("int8", "topk:0.01", "sign", "fp16+rans"),
                         [](const auto& each) { return each.param.substr(0, 4); });

TEST(Lane, RefusesSizesThatCannotBe) {
  for (const std::int64_t told : {std::int64_t{-1}, std::int64_t{1} << 60}) {
    LaneExchangeMember member("topk:0.01", 0);
    member.peer.told = told;
    const auto first = member.first();
    ASSERT_FALSE(first.has_value());
    EXPECT_EQ(first.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(first.error().peer, 11);
  }
}

// The destructor does not wait for a rank that left in the middle of a step.
TEST(LaneExchange, EndsInTheMiddleOfAStep) {
  std::promise<void> gone;
  const std::shared_future<void> is_gone = gone.get_future().share();
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto options = encoded_model("int8", sgd());
    auto update = make_update(job, options);
    if (job.rank() == 0) {
      update->begin({.samples = 1, .weight = 1});
      for (std::size_t p = options.parameters.size(); p-- > 0;)
        ASSERT_TRUE(update->ready(p).has_value());
      update.reset();
      gone.set_value();
    }
    is_gone.wait();
  });
}

// Counts its calls, and fails at a given one.
class CountingBucket final : public BucketCodec {
 public:
  CountingBucket(std::vector<std::string>& log, Mutex& mutex, int number)
      : log_(log), mutex_(mutex), number_(number) {}
  bool fails = false;
  std::optional<std::shared_future<void>> gate = {};  // first() waits for it

  Result<void> first(Lane& /*lane*/, const LaneStep& step) override {
    note("first", step);
    if (gate) gate->wait();
    return {};
  }
  Result<void> second(Lane& /*lane*/, const LaneStep& step) override {
    if (fails) return Error{.code = ErrorCode::kCorrupt, .message = "as told"};
    note("second", step);
    return {};
  }
  std::vector<CodecState> states() override { return {}; }

 private:
  void note(const char* what, const LaneStep& step) {
    const MutexLock lock(mutex_);
    log_.push_back(fmt::format("{} {} {}", what, number_, step.step));
  }
  std::vector<std::string>& log_;
  Mutex& mutex_;
  const int number_;
};

class CountedExchange {
 public:
  explicit CountedExchange(int buckets, const LaneSchedule& schedule = {},
                           Communicator* peer = nullptr) {
    const std::vector<Rank> ranks =
        peer == nullptr ? std::vector<Rank>{0} : std::vector<Rank>{10, 11};
    std::vector<std::unique_ptr<BucketCodec>> codecs;
    for (int b = 0; b < buckets; ++b) {
      auto bucket = std::make_unique<CountingBucket>(log, mutex, b);
      parts.push_back(bucket.get());
      codecs.push_back(std::move(bucket));
    }
    exchange = std::make_unique<LaneExchange>(
        LaneExchange::Lanes{.there = std::make_unique<Lane>(peer, ranks),
                            .back = std::make_unique<Lane>(peer, ranks)},
        std::move(codecs), schedule);
  }
  // The calls of first(), in order.
  std::vector<std::string> firsts() {
    const MutexLock lock(mutex);
    std::vector<std::string> firsts;
    for (const std::string& line : log)
      if (line.starts_with("first")) firsts.push_back(line);
    return firsts;
  }
  std::vector<std::string> log;
  Mutex mutex;
  std::vector<CountingBucket*> parts;
  std::unique_ptr<LaneExchange> exchange;
};

TEST(LaneExchange, TakesBucketsInTheirOrderStepByStep) {
  CountedExchange counted(3);
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::size_t b = 0; b < 3; ++b) counted.exchange->submit(b, {.step = step});
    for (std::size_t b = 3; b-- > 0;) ASSERT_TRUE(counted.exchange->wait(b).has_value());
  }
  std::vector<std::string> firsts;
  std::vector<std::string> seconds;
  for (const std::string& line : counted.log)
    (line.starts_with("first") ? firsts : seconds).push_back(line);
  ASSERT_EQ(firsts.size(), 12U);
  ASSERT_EQ(seconds.size(), 12U);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(firsts[static_cast<std::size_t>(i)], fmt::format("first {} {}", i % 3, i / 3));
    EXPECT_EQ(seconds[static_cast<std::size_t>(i)], fmt::format("second {} {}", i % 3, i / 3));
  }
}

// The first bucket is slow: the other buckets become ready meanwhile.
TEST(LaneExchange, ByPrioritySendsWhatForwardNeedsFirst) {
  CountedExchange counted(
      5, {.by_priority = true, .bytes_in_flight = 10, .bytes = std::vector<std::size_t>(5, 10)});
  std::promise<void> open;
  counted.parts[0]->gate = open.get_future().share();
  counted.exchange->submit(0, {});
  // A bucket in flight cannot be overtaken.
  while (counted.firsts().empty()) std::this_thread::yield();
  for (std::size_t b = 1; b < 5; ++b) counted.exchange->submit(b, {});
  open.set_value();
  for (std::size_t b = 0; b < 5; ++b) ASSERT_TRUE(counted.exchange->wait(b).has_value());
  EXPECT_THAT(counted.firsts(), testing::ElementsAre("first 0 0", "first 4 0", "first 3 0",
                                                     "first 2 0", "first 1 0"));
}

// A member waits for the bucket that the first member announced, even if others are ready.
TEST(LaneExchange, ByPriorityFollowsTheFirstMember) {
  ScriptedPeer peer(1);
  peer.order = {1, 2, 0};
  CountedExchange counted(3, {.by_priority = true, .bytes_in_flight = 1, .bytes = {10, 10, 10}},
                          &peer);
  for (std::size_t b = 0; b < 3; ++b) counted.exchange->submit(b, {});
  for (std::size_t b = 0; b < 3; ++b) ASSERT_TRUE(counted.exchange->wait(b).has_value());
  EXPECT_THAT(counted.firsts(), testing::ElementsAre("first 1 0", "first 2 0", "first 0 0"));
}

TEST(LaneExchange, ByPriorityRefusesABucketThatCannotBe) {
  for (const std::int64_t told : {std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 40}) {
    ScriptedPeer peer(1);
    peer.order = {told};
    CountedExchange counted(2, {.by_priority = true, .bytes_in_flight = 1, .bytes = {10, 10}},
                            &peer);
    counted.exchange->submit(0, {});
    const auto outcome = counted.exchange->wait(0);
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(outcome.error().peer, 10);
  }
}

TEST(LaneExchange, TellsAnErrorToAllThatWait) {
  CountedExchange counted(3);
  counted.parts[1]->fails = true;
  for (std::size_t b = 0; b < 3; ++b) counted.exchange->submit(b, {});
  for (const std::size_t b : {1, 2, 1}) {
    const auto outcome = counted.exchange->wait(b);
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().message, "as told");
  }
  // A further submit() after the error fails as well.
  counted.exchange->submit(0, {});
  EXPECT_FALSE(counted.exchange->wait(0).has_value());
}

// Of two buckets the first fails while the second is being sent. first() of the second one waits a
// while for `told`, and records whether the error was reported before it had ended.
class SlowBucket final : public BucketCodec {
 public:
  struct Shared {
    std::promise<void> sending;
    std::promise<void> told;
    std::atomic<bool> was_told_while_sending{false};
    std::atomic<bool> is_sent{false};
  };
  SlowBucket(Shared& shared, bool fails) : shared_(shared), fails_(fails) {}

  Result<void> first(Lane& /*lane*/, const LaneStep& /*step*/) override {
    if (fails_) return {};
    auto told = shared_.told.get_future();
    shared_.sending.set_value();
    shared_.was_told_while_sending =
        told.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready;
    shared_.is_sent = true;
    return {};
  }
  Result<void> second(Lane& /*lane*/, const LaneStep& /*step*/) override {
    if (!fails_) return {};
    shared_.sending.get_future().wait();
    return Error{.code = ErrorCode::kCorrupt, .message = "as told"};
  }
  std::vector<CodecState> states() override { return {}; }

 private:
  Shared& shared_;
  const bool fails_;
};

TEST(LaneExchange, TellsAnErrorWhenNothingIsInHandAnyMore) {
  SlowBucket::Shared shared;
  std::vector<std::unique_ptr<BucketCodec>> buckets;
  for (const bool fails : {true, false})
    buckets.push_back(std::make_unique<SlowBucket>(shared, fails));
  LaneExchange exchange({.there = std::make_unique<Lane>(nullptr, std::vector<Rank>{0}),
                         .back = std::make_unique<Lane>(nullptr, std::vector<Rank>{0})},
                        std::move(buckets));
  for (const std::size_t b : {0, 1}) exchange.submit(b, {});
  EXPECT_FALSE(exchange.wait(0).has_value());
  shared.told.set_value();
  // After states() the memory may be read again.
  exchange.states();
  EXPECT_TRUE(shared.is_sent);
  EXPECT_FALSE(shared.was_told_while_sending);
}

}  // namespace
}  // namespace tally::exchange
