#include "exchange/lane/codec_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "exchange/group/encoded_update_test_support.h"
#include "exchange/group/test_checkpoint.h"

namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;
using testing::ElementsAre;

std::vector<std::string> names_of(const std::vector<CodecTensor>& tensors) {
  std::vector<std::string> names;
  for (const CodecTensor& tensor : tensors)
    names.push_back(fmt::format("{} {}", tensor.parameter, tensor.name));
  return names;
}

const std::vector<ParameterInfo>& infos() {
  static const std::vector<ParameterInfo> all = {
      {.name = "w", .shape = {40, 50}},
      {.name = "b", .shape = {40}},
      {.name = "d", .type = DataType::kFloat64, .shape = {40, 50}}};
  return all;
}

TEST(CodecState, HasATensorForEachSenderAndOneForTheWayBack) {
  EXPECT_THAT(names_of(codec_tensors(spec_of("none"), infos(), 2)), ElementsAre());
  EXPECT_THAT(names_of(codec_tensors(spec_of("fp16"), infos(), 2)), ElementsAre());
  EXPECT_THAT(names_of(codec_tensors(spec_of("sign:momentum=late"), infos(), 2)),
              ElementsAre("0 codec.residual.0", "0 codec.residual.1", "0 codec.back"));
  EXPECT_THAT(names_of(codec_tensors(spec_of("topk:momentum=late"), infos(), 1)),
              ElementsAre("0 codec.residual.0"));
  const auto factors = codec_tensors(spec_of("powersgd:3"), infos(), 1);
  EXPECT_THAT(names_of(factors), ElementsAre("0 codec.residual.0", "0 codec.q"));
  EXPECT_THAT(factors[1].shape, ElementsAre(3, 50));
}

TEST(CodecState, IsToldFromTheOptimizersByName) {
  EXPECT_TRUE(is_codec_tensor("fc.weight/codec.residual.0"));
  EXPECT_FALSE(is_codec_tensor("fc.weight/exp_avg"));
  EXPECT_FALSE(is_codec_tensor("codec.weight/exp_avg"));
}

// The elements of "w" that `sender` restores from a checkpoint of `saved` senders.
std::vector<float> restored(int saved, const Sender& sender) {
  TestCheckpoint checkpoint;
  for (int s = 0; s < saved; ++s) {
    std::vector<float> values(2000);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i) + 100.0F * static_cast<float>(s);
    checkpoint.add(fmt::format("w/codec.residual.{}", s), {40, 50}, 0, values);
  }
  std::vector<float> values(3, 5.0F);
  const std::vector<CodecState> states = {{.name = "residual", .first = 7, .values = values}};
  EXPECT_TRUE(read_states(checkpoint, infos(), states, sender).has_value());
  return values;
}

TEST(CodecState, OfAsManySendersIsEachOnesOwnAgain) {
  EXPECT_THAT(restored(3, {.number = 2, .of = 3}), ElementsAre(207, 208, 209));
  EXPECT_THAT(restored(1, {.number = 0, .of = 1}), ElementsAre(7, 8, 9));
}

TEST(CodecState, OfAnotherNumberOfSendersIsTheMeanOfAll) {
  EXPECT_THAT(restored(4, {.number = 1, .of = 2}), ElementsAre(157, 158, 159));
  EXPECT_THAT(restored(2, {.number = 2, .of = 5}), ElementsAre(57, 58, 59));
}

TEST(CodecState, ThatWasNotSavedBeginsEmpty) {
  EXPECT_THAT(restored(0, {.number = 0, .of = 2}), ElementsAre(0, 0, 0));
  std::vector<float> values(3, 5.0F);
  const std::vector<CodecState> back = {
      {.name = "back", .is_of_sender = false, .first = 7, .values = values}};
  EXPECT_TRUE(read_states(TestCheckpoint(), infos(), back, {}).has_value());
  EXPECT_THAT(values, ElementsAre(0, 0, 0));
}

TEST(CodecState, OfAnotherShapeIsRefused) {
  TestCheckpoint checkpoint;
  checkpoint.add("w/codec.residual.0", {50, 40}, 0, std::vector<float>(2000));
  std::vector<float> values(3);
  const std::vector<CodecState> states = {{.name = "residual", .values = values}};
  const auto read = read_states(checkpoint, infos(), states, {});
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kMismatch);
  EXPECT_EQ(read.error().message,
            "the checkpoint's w/codec.residual.0 is float32 [50, 40], where w has [40, 50]");
}

TEST(CodecState, OfAFactorOfAnotherRankIsNotTaken) {
  TestCheckpoint checkpoint;
  checkpoint.add("w/codec.q", {2, 50}, 0, std::vector<float>(100, 3.0F));
  std::vector<float> same(100, 1.0F);
  std::vector<float> other(150, 1.0F);
  const std::vector<CodecState> states = {{.name = "q", .is_of_sender = false, .values = same},
                                          {.name = "q", .is_of_sender = false, .values = other}};
  ASSERT_TRUE(read_states(checkpoint, infos(), states, {}).has_value());
  EXPECT_THAT(same, testing::Each(3.0F));
  EXPECT_THAT(other, testing::Each(1.0F));
}

// Saves the state of all ranks: every element of every tensor once.
void save(const GroupUpdate::Options& options, GroupUpdate& update, TestCheckpoint& all) {
  const auto as_floats = [](std::span<std::byte> bytes) {
    return std::span<const float>(reinterpret_cast<const float*>(bytes.data()), bytes.size() / 4);
  };
  for (const CodecTensor& tensor :
       codec_tensors(options.codec, options.parameters, update.sender().of))
    all.expect(options.parameters[tensor.parameter].name + "/" + tensor.name, tensor.shape);
  const auto states = update.saved_states();
  for (const SliceState& state : *states) {
    const ParameterInfo& info = options.parameters[state.parameter];
    all.add(info.name, info.shape, state.first, as_floats(state.values));
    for (std::size_t k = 0; k < state.state.size(); ++k)
      all.add(fmt::format("{}/{}", info.name, k), info.shape, state.first,
              as_floats(state.state[k]));
  }
  const auto codec_states = update.codec_states();
  for (const CodecState& state : *codec_states) {
    const ParameterInfo& info = options.parameters[state.parameter];
    if (state.is_saved_here)
      all.add(info.name + "/" + tensor_name(state, update.sender().number), {}, state.first,
              state.values);
  }
}

void restore(Job& job, const GroupUpdate::Options& options, const TestCheckpoint& all, int steps,
             GroupUpdate& update) {
  ASSERT_TRUE(update.make_state().has_value());
  ASSERT_TRUE(job.world().barrier().has_value());
  for (std::size_t p = 0; update.writes_values() && p < options.parameters.size(); ++p)
    ASSERT_TRUE(all.read_state(options.parameters[p].name, 0, update.values(p)).has_value());
  ASSERT_TRUE(update.adopt_values(soon()).has_value());
  const auto states = update.states();
  for (const SliceState& state : *states)
    for (std::size_t k = 0; k < state.state.size(); ++k)
      ASSERT_TRUE(all.read_state(fmt::format("{}/{}", options.parameters[state.parameter].name, k),
                                 state.first, state.state[k])
                      .has_value());
  ASSERT_TRUE(
      read_states(all, options.parameters, *update.codec_states(), update.sender()).has_value());
  std::fill(update.steps().begin(), update.steps().end(), static_cast<std::uint64_t>(steps));
  update.set_updates(static_cast<std::uint64_t>(steps));
}

class CodecStateOf : public testing::TestWithParam<std::string> {};

TEST_P(CodecStateOf, LetsTheSameRanksGoOnWithTheSameBits) {
  const OptimizerSpec optimizer = GetParam().starts_with("onebit-adam")
                                      ? adam({.rate = 0.01})
                                      : sgd({.rate = 0.1, .momentum = 0.9});
  const auto options = encoded_model(GetParam(), optimizer);
  const std::vector<std::pair<Network, int>> places = {{Network::kInProcess, 3},
                                                       {Network::kTwoHosts, 4}};
  for (const auto& place : places) {
    const Network network = place.first;
    const int ranks = place.second;
    TestCheckpoint saved;
    std::vector<Values> whole(static_cast<std::size_t>(ranks));
    run_ranks(network, ranks, [&](Job& job) {
      const auto update = make_update(job, options);
      take_steps(job, *update, {.steps = 3});
      save(options, *update, saved);
      take_steps(job, *update, {.steps = 6}, 3);
      whole[static_cast<std::size_t>(job.rank())] = values_in(*update);
      ASSERT_TRUE(job.world().barrier().has_value());
    });
    EXPECT_TRUE(saved.is_whole());
    run_ranks(network, ranks, [&](Job& job) {
      const auto update = make_update(job, options);
      restore(job, options, saved, 3, *update);
      take_steps(job, *update, {.steps = 6}, 3);
      EXPECT_EQ(values_in(*update), whole[static_cast<std::size_t>(job.rank())])
          << name_of(network);
      ASSERT_TRUE(job.world().barrier().has_value());
    });
    // Another number of senders also works: not with the same bits, but equally on all ranks.
    std::vector<Values> others(2);
    run_ranks(Network::kInProcess, 2, [&](Job& job) {
      const auto update = make_update(job, options);
      restore(job, options, saved, 3, *update);
      take_steps(job, *update, {.steps = 6}, 3);
      others[static_cast<std::size_t>(job.rank())] = values_in(*update);
      ASSERT_TRUE(job.world().barrier().has_value());
    });
    EXPECT_EQ(others[0], others[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodecStateOf,
                         testing::Values("sign", "int8:256,feedback=on", "topk:0.05", "dgc:0.05",
                                         "onebit-adam:2", "powersgd:2", "qsgd"),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (char& letter : name)
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0)
                               letter = '_';
                           return name;
                         });

}  // namespace
}  // namespace tally::exchange
