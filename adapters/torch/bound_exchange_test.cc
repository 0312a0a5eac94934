#include "adapters/torch/bound_exchange.h"

#include <array>
#include <deque>
#include <optional>

#include <gmock/gmock.h>

#include "adapters/torch/test_nets.h"

namespace tally::adapter {
namespace {

// Plain SGD of one rank in float32, with two generations of values. Gradients move at each begin(),
// or lie together with `lends`.
class TestExchange final : public exchange::Exchange,
                           private exchange::GradientMemory,
                           private exchange::Meetings,
                           private exchange::CheckpointState {
 public:
  explicit TestExchange(const std::vector<NamedTensor>& parameters) {
    const auto initial = initial_values(parameters);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const auto count = static_cast<std::size_t>(parameters[p].tensor.numel());
      Memory& memory = memory_.emplace_back();
      for (std::vector<float>* each :
           {&memory.values[0], &memory.values[1], &memory.gradients[0], &memory.gradients[1]})
        each->resize(count);
      initial(p, DataType::kFloat32, values(p));
    }
    ready_.resize(parameters.size());
    places_.resize(parameters.size());
  }

  Result<exchange::StepChoice> begin() override {
    if (!has_begun && !lends) room_ = 1 - room_;
    has_begun = true;
    return exchange::StepChoice{};
  }
  Result<bool> announce(const exchange::StepContribution&) override { return true; }
  Result<void> ready(std::size_t parameter, const std::byte* elsewhere) override {
    ready_[parameter] = true;
    places_[parameter] = elsewhere != nullptr ? elsewhere : gradient(parameter).data();
    was_elsewhere = elsewhere != nullptr;
    return {};
  }
  bool reads_elsewhere() const override { return reads; }
  Result<exchange::StepTotals> complete(const exchange::StepContribution& own) override {
    if (failure) return *failure;
    for (std::size_t p = 0; p < memory_.size(); ++p) {
      Memory& memory = memory_[p];
      const auto* const gradient = reinterpret_cast<const float*>(places_[p]);
      for (std::size_t i = 0; i < memory.values[0].size(); ++i)
        memory.values[1 - now_][i] =
            memory.values[now_][i] -
            (ready_[p] ? static_cast<float>(own.rates[0]) * gradient[i] : 0);
    }
    now_ = 1 - now_;
    ++steps_;
    has_begun = false;
    ready_.assign(ready_.size(), false);
    return exchange::StepTotals{.samples = own.samples, .loss_sum = own.loss_sum, .updated = true};
  }
  Result<void> drain(const exchange::StepContribution&) override { return {}; }
  Result<void> reform(Communicator&) override { return {}; }
  std::uint64_t steps() const override { return steps_; }
  DataType type(std::size_t) const override { return DataType::kFloat32; }
  std::span<std::byte> values(std::size_t parameter) const override {
    return std::as_writable_bytes(std::span(memory_[parameter].values[now_]));
  }
  std::span<std::byte> gradient(std::size_t parameter) override {
    return std::as_writable_bytes(std::span(memory_[parameter].gradients[room_]));
  }
  exchange::GradientMemory* gradient_memory() override { return lends ? this : nullptr; }
  exchange::Meetings& meetings() override { return *this; }
  exchange::CheckpointState& checkpoint() override { return *this; }
  exchange::Statistics statistics() const override { return {}; }

  bool has_begun = false;
  bool reads = false;          // gradients elsewhere
  bool was_elsewhere = false;  // the gradient of the last ready()
  bool lends = false;          // has a GradientMemory
  int added = 0;               // calls of add()
  std::optional<Error> failure;

 private:
  struct Memory {
    mutable std::array<std::vector<float>, 2> values;
    std::array<std::vector<float>, 2> gradients;
  };

  std::shared_ptr<const void> owner() const override { return owner_; }
  Result<std::span<std::byte>> add(std::size_t bytes) override {
    ++added;
    return std::as_writable_bytes(std::span(more_.emplace_back(bytes / sizeof(float))));
  }
  bool in_step() const override { return true; }
  bool is_first() const override { return true; }
  Result<void> sum(std::span<double>) override { return {}; }
  Result<void> broadcast(std::span<std::byte> bytes) override {
    for (std::byte& byte : bytes) byte = ~byte;
    return {};
  }
  Result<void> meet(std::span<double>) override {
    has_begun = false;
    return {};
  }
  bool is_due(std::uint64_t) override { return true; }
  Result<std::vector<exchange::SliceState>> states() override {
    return std::vector<exchange::SliceState>();
  }
  std::vector<exchange::CodecTensor> codec_tensors() const override { return {}; }
  Result<std::vector<exchange::CodecState>> codec_states() override {
    return std::vector<exchange::CodecState>();
  }
  exchange::Sender sender() const override { return {}; }
  exchange::SavedCourse course() const override { return {}; }
  std::uint64_t updates_of(const exchange::SavedCourse&) const override { return 0; }
  Result<void> restore(const checkpoint::Reader&, const exchange::SavedCourse&) override {
    return {};
  }

  std::deque<Memory> memory_;
  std::deque<std::vector<float>> more_;
  const std::shared_ptr<const void> owner_ = std::make_shared<int>();
  std::vector<bool> ready_;
  std::vector<const std::byte*> places_;
  std::size_t now_ = 0;
  std::size_t room_ = 0;
  std::uint64_t steps_ = 0;
};

class BoundExchangeTest : public testing::Test {
 protected:
  BoundExchangeTest() {
    for (const auto& item : net->named_parameters())
      parameters.push_back({item.key(), item.value()});
    bind();
  }
  void bind() {
    auto made = std::make_unique<TestExchange>(parameters);
    inner = made.get();
    bound = std::make_unique<BoundExchange>(std::move(made), parameters);
  }
  void compute(int step) { loss_of(net, test_batch(step, 8)).backward(); }
  exchange::StepTotals complete() {
    const exchange::StepTotals result = bound->complete(contribution);
    bound->forget_gradients();
    return result;
  }
  bool is_view(std::size_t p) const {
    return parameters[p].tensor.data_ptr() == inner->values(p).data();
  }

  SmallNet net = own_net(1);
  std::vector<NamedTensor> parameters;
  TestExchange* inner = nullptr;
  std::unique_ptr<BoundExchange> bound;
  const exchange::StepContribution contribution{
      .samples = 8, .weight = 8, .loss_sum = 3, .rates = {0.1}};
};

TEST_F(BoundExchangeTest, ParametersAndTheirViewsFollowEachNewVersion) {
  const std::vector<at::Tensor> before = copies_of(*net);
  const at::Tensor transposed = parameters[0].tensor.detach().t();
  SmallNet alone = own_net(1);
  for (int step = 0; step < 3; ++step) {
    bound->begin();
    if (step > 0) bound->announce(contribution);
    compute(step);
    EXPECT_EQ(complete().loss_sum, 3);
    alone->zero_grad();
    loss_of(alone, test_batch(step, 8)).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : alone->parameters()) parameter.sub_(parameter.grad(), 0.1);
    for (std::size_t p = 0; p < parameters.size(); ++p) EXPECT_TRUE(is_view(p)) << step;
    EXPECT_EQ(transposed.data_ptr(), parameters[0].tensor.data_ptr());
  }
  expect_near(copies_of(*alone), copies_of(*net), 1e-6, "sequential sgd");
}

TEST_F(BoundExchangeTest, GradientsOfSeveralBackwardsAddUpInTheMemoryOfTheExchange) {
  compute(0);
  EXPECT_TRUE(inner->has_begun) << "a backward outside of step() begins the update";
  compute(1);
  EXPECT_EQ(parameters[0].tensor.grad().data_ptr(), inner->gradient(0).data());
  const at::Tensor sum = parameters[0].tensor.grad().clone();
  // The update begins anew, in other memory: the gradient moves along.
  bound->meet({});
  bound->begin();
  EXPECT_NE(parameters[0].tensor.grad().data_ptr(), inner->gradient(0).data());
  const at::Tensor before = parameters[0].tensor.detach().clone();
  complete();
  EXPECT_LE((before - 0.1 * sum - parameters[0].tensor).abs().max().item<double>(), 1e-6);
}

// No copy is made, also of a gradient that several backwards have added to.
TEST_F(BoundExchangeTest, GradientsStayWhereTheExchangeCanReadThem) {
  inner->reads = true;
  for (const int backwards : {1, 2}) {
    for (int i = 0; i < backwards; ++i) compute(i);
    const at::Tensor sum = parameters[0].tensor.grad().clone();
    const at::Tensor before = parameters[0].tensor.detach().clone();
    complete();
    EXPECT_TRUE(inner->was_elsewhere);
    EXPECT_EQ(bound->copying(), Duration::zero());
    EXPECT_LE((before - 0.1 * sum - parameters[0].tensor).abs().max().item<double>(), 1e-6);
  }
}

// The largest parameter is large enough to be lent its memory.
TEST_F(BoundExchangeTest, BackwardPutsGradientsIntoTheMemoryOfTheExchange) {
  inner->lends = true;
  SmallNet alone = own_net(1);
  for (int step = 0; step < 3; ++step) {
    bound->begin();
    bound->announce(contribution);
    bound->backward(loss_of(net, test_batch(step, 8)));
    EXPECT_EQ(net->second->weight.grad().data_ptr(), inner->gradient(2).data());
    complete();
    alone->zero_grad();
    loss_of(alone, test_batch(step, 8)).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : alone->parameters()) parameter.sub_(parameter.grad(), 0.1);
  }
  EXPECT_EQ(inner->added, 0);
  expect_near(copies_of(*alone), copies_of(*net), 1e-6, "sequential sgd");
}

// The caller keeps all gradients, which must not change: the exchange gives more memory.
TEST_F(BoundExchangeTest, GradientsThatTheCallerKeepsStayUnchanged) {
  inner->lends = true;
  std::vector<at::Tensor> kept;
  std::vector<at::Tensor> copies;
  SmallNet alone = own_net(1);
  for (int step = 0; step < 3; ++step) {
    bound->begin();
    bound->backward(loss_of(net, test_batch(step, 8)));
    kept.push_back(net->second->weight.grad());
    copies.push_back(kept.back().clone());
    complete();
    alone->zero_grad();
    loss_of(alone, test_batch(step, 8)).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : alone->parameters()) parameter.sub_(parameter.grad(), 0.1);
  }
  EXPECT_EQ(inner->added, 2);
  expect_same_bits(kept, copies, "gradients");
  expect_near(copies_of(*alone), copies_of(*net), 1e-6, "sequential sgd");
}

TEST_F(BoundExchangeTest, AGradientThatArrivesTwiceAfterTheAnnouncementIsRefused) {
  bound->begin();
  bound->announce(contribution);
  EXPECT_TRUE(bound->is_announced());
  compute(0);
  EXPECT_THROW(compute(1), Failure);
}

TEST_F(BoundExchangeTest, OtherTypesAreCopied) {
  bound.reset();
  net->to(at::kDouble);
  parameters.clear();
  for (const auto& item : net->named_parameters()) parameters.push_back({item.key(), item.value()});
  bind();
  EXPECT_FALSE(is_view(0));
  TestBatch batch = test_batch(0, 8);
  batch.x = batch.x.to(at::kDouble);
  const at::Tensor before = parameters[1].tensor.detach().clone();
  loss_of(net, batch).backward();
  const at::Tensor gradient = parameters[1].tensor.grad().clone();
  EXPECT_EQ(gradient.scalar_type(), at::kDouble);
  complete();
  EXPECT_LE((before - 0.1 * gradient - parameters[1].tensor).abs().max().item<double>(), 1e-6);
}

TEST_F(BoundExchangeTest, ErrorsAreThrownAndAnUnfinishedUpdateKeepsItsValues) {
  const std::vector<at::Tensor> before = copies_of(*net);
  inner->failure = Error{.code = ErrorCode::kPeerLost, .message = "gone"};
  compute(0);
  EXPECT_THROW(complete(), Failure);
  expect_same_bits(before, copies_of(*net), "values");
}

TEST_F(BoundExchangeTest, AfterwardsParametersHaveMemoryOfTheirOwn) {
  compute(0);
  complete();
  const std::vector<at::Tensor> values = copies_of(*net);
  const void* const memory = parameters[0].tensor.data_ptr();
  bound.reset();
  EXPECT_NE(parameters[0].tensor.data_ptr(), memory);
  expect_same_bits(values, copies_of(*net), "values");
  EXPECT_FALSE(is_hooked(parameters[0].tensor));
}

TEST_F(BoundExchangeTest, ABroadcastWritesAllTensors) {
  const at::Tensor bytes = at::arange(3, at::kByte);
  const at::Tensor more = at::full({2}, 255, at::kByte);
  bound->broadcast({{"bytes", bytes}, {"more", more}});
  EXPECT_TRUE(at::equal(bytes, 255 - at::arange(3, at::kByte)));
  EXPECT_TRUE(at::equal(more, at::zeros({2}, at::kByte)));
}

}  // namespace
}  // namespace tally::adapter
