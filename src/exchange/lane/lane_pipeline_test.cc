#include "exchange/lane/lane_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>

#include "base/rng.h"
#include "collective/handle.h"
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
  std::vector<std::byte> sent_there{};  // the parcel that this rank sent
  std::vector<std::byte> sent_back{};

  Rank rank() const override { return rank_; }
  int size() const override { return 2; }
  Result<void> run(const Request& request) override {
    if (request.operation == Operation::kAllToAll) return exchange(request, there, sent_there);
    return gather(request);
  }
  Handle start(const Request& request) override { return ended_handle(run(request)); }
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
class LanePipelineMember {
 public:
  LanePipelineMember(const std::string& codec, int number)
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
  Result<void> first() {
    TALLY_TRY(Delivery delivery, codec_->first(lane_, step()));
    return delivery.finish();
  }
  Result<void> second() {
    TALLY_TRY(Delivery delivery, codec_->second(lane_, step()));
    TALLY_TRY(delivery.finish());
    return codec_->third(lane_, step());
  }
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
  LanePipelineMember other(codec, 1);
  LanePipelineMember first(codec, 0);
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
  LanePipelineMember member(GetParam(), 0);
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
    LanePipelineMember member(GetParam(), 0);
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
    LanePipelineMember member(GetParam(), 0);
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
    LanePipelineMember member("topk:0.01", 0);
    member.peer.told = told;
    const auto first = member.first();
    ASSERT_FALSE(first.has_value());
    EXPECT_EQ(first.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(first.error().peer, 11);
  }
}

// The destructor does not wait for a rank that left in the middle of a step.
TEST(LanePipeline, EndsInTheMiddleOfAStep) {
  std::promise<void> gone;
  const std::shared_future<void> is_gone = gone.get_future().share();
  run_ranks(Network::kInProcess, 2, [&](Job& job) {
    const auto options = encoded_model("int8", sgd());
    auto update = make_update(job, options);
    ASSERT_TRUE(update->make_state().has_value());
    if (job.rank() == 0) {
      ASSERT_TRUE(update->begin({.samples = 1, .weight = 1}).has_value());
      for (std::size_t p = options.parameters.size(); p-- > 0;)
        ASSERT_TRUE(update->ready(p).has_value());
      update.reset();
      gone.set_value();
    }
    is_gone.wait();
  });
}

// Logs its calls, and fails where a test wants it.
class LoggingBucket final : public BucketCodec {
 public:
  LoggingBucket(std::vector<std::string>& log, int number) : log_(log), number_(number) {}
  bool fails = false;
  std::shared_ptr<Handle::State> gate;  // the end of the operation that first() starts

  Result<Delivery> first(Lane& /*lane*/, const LaneStep& step) override {
    note("first", step);
    return gate ? Delivery{.operation = Handle(gate)} : Delivery{};
  }
  Result<Delivery> second(Lane& /*lane*/, const LaneStep& step) override {
    if (fails) return Error{.code = ErrorCode::kCorrupt, .message = "as told"};
    note("second", step);
    return Delivery{};
  }
  Result<void> third(const Lane& /*lane*/, const LaneStep& step) override {
    note("third", step);
    return {};
  }

 private:
  void note(const char* what, const LaneStep& step) {
    log_.push_back(fmt::format("{} {} {}", what, number_, step.step));
  }
  std::vector<std::string>& log_;
  const int number_;
};

class LoggedPipeline {
 public:
  explicit LoggedPipeline(int buckets) {
    const std::vector<Rank> alone = {0};
    std::vector<std::unique_ptr<BucketCodec>> codecs;
    for (int b = 0; b < buckets; ++b) {
      auto bucket = std::make_unique<LoggingBucket>(log, b);
      parts.push_back(bucket.get());
      codecs.push_back(std::move(bucket));
    }
    pipeline = std::make_unique<LanePipeline>(
        LanePipeline::Lanes{.there = std::make_unique<Lane>(nullptr, alone),
                            .back = std::make_unique<Lane>(nullptr, alone)},
        std::move(codecs));
  }
  // The calls of one function, in order.
  std::vector<std::string> calls(const std::string& function) const {
    std::vector<std::string> calls;
    for (const std::string& line : log)
      if (line.starts_with(function)) calls.push_back(line);
    return calls;
  }
  std::vector<std::string> log;
  std::vector<LoggingBucket*> parts;
  std::unique_ptr<LanePipeline> pipeline;
};

TEST(LanePipeline, TakesBucketsInTheirOrderStepByStep) {
  LoggedPipeline logged(3);
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::size_t b = 0; b < 3; ++b) logged.pipeline->submit(b, {.step = step});
    for (std::size_t b = 3; b-- > 0;) ASSERT_TRUE(logged.pipeline->wait(b).has_value());
  }
  for (const std::string function : {"first", "second", "third"}) {
    const std::vector<std::string> calls = logged.calls(function);
    ASSERT_EQ(calls.size(), 12U);
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(calls[static_cast<std::size_t>(i)],
                fmt::format("{} {} {}", function, i % 3, i / 3));
  }
}

// The first bucket is slow: the next one begins, but does not overtake it.
TEST(LanePipeline, SendsTheNextBucketWhileOneIsOnItsWay) {
  LoggedPipeline logged(2);
  logged.parts[0]->gate = std::make_shared<Handle::State>();
  logged.pipeline->submit(0, {});
  logged.pipeline->submit(1, {});
  EXPECT_THAT(logged.log, testing::ElementsAre("first 0 0", "first 1 0"));
  logged.parts[0]->gate->complete({});
  logged.pipeline->advance();
  EXPECT_THAT(logged.calls("third"), testing::ElementsAre("third 0 0", "third 1 0"));
}

TEST(LanePipeline, TellsAnErrorToAllThatWait) {
  LoggedPipeline logged(3);
  logged.parts[1]->fails = true;
  for (std::size_t b = 0; b < 3; ++b) logged.pipeline->submit(b, {});
  for (const std::size_t b : {1, 2, 1}) {
    const auto outcome = logged.pipeline->wait(b);
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().message, "as told");
  }
  // A further submit() after the error fails as well.
  logged.pipeline->submit(0, {});
  EXPECT_FALSE(logged.pipeline->wait(0).has_value());
}

}  // namespace
}  // namespace tally::exchange
