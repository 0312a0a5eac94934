#pragma once
// Support for tests: small modules, data, and jobs whose ranks are threads.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "collective/test_jobs.h"
#include "tally/torch.h"

namespace tally::adapter {

// Three layers, the second large enough to be cut between ranks.
struct SmallNetImpl : torch::nn::Module {
  // `last_first`: parameters are not in the order in which forward() uses them.
  explicit SmallNetImpl(std::int64_t hidden = 100, bool last_first = false)
      : first(10, hidden), second(hidden, 90), last(90, 3) {
    if (last_first) register_module("last", last);
    register_module("first", first);
    register_module("second", second);
    if (!last_first) register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(torch::relu(second(torch::tanh(first(x)))));
  }
  torch::nn::Linear first;
  torch::nn::Linear second;
  torch::nn::Linear last;
};
TORCH_MODULE(SmallNet);

inline SmallNet small_net(std::uint64_t seed) {
  torch::manual_seed(seed);
  return SmallNet();
}

// Every call with the same number returns the same batch.
struct TestBatch {
  at::Tensor x;
  at::Tensor y;
};
inline TestBatch test_batch(int step, std::int64_t samples) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(1000 + step);
  const at::Tensor x = at::randn({samples, 10}, generator);
  return {x, (x.sum(1) > 0).to(at::kLong) + (x.select(1, 0) > 0.5).to(at::kLong)};
}
inline TestBatch part_of(const TestBatch& batch, Rank rank, int ranks) {
  const std::int64_t samples = batch.x.size(0);
  const std::int64_t begin = samples * rank / ranks;
  const std::int64_t end = samples * (rank + 1) / ranks;
  return {batch.x.slice(0, begin, end), batch.y.slice(0, begin, end)};
}

inline at::Tensor loss_of(SmallNet& net, const TestBatch& batch) {
  return torch::cross_entropy_loss(net->forward(batch.x), batch.y);
}

inline std::vector<at::Tensor> copies_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : module.parameters())
    copies.push_back(parameter.detach().clone());
  return copies;
}

inline void expect_near(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].numel() == 0 && b[i].numel() == 0) continue;
    EXPECT_LE((a[i] - b[i]).abs().max().item<double>(), tolerance) << what << ", tensor " << i;
  }
}
inline void expect_same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                             const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i], b[i])) << what << ", tensor " << i;
}

// libtorch's seed generator is global to the process: ranks in threads create their modules one by
// one.
inline std::mutex& making() {
  static std::mutex mutex;
  return mutex;
}
inline SmallNet own_net(std::uint64_t seed) {
  const std::lock_guard lock(making());
  return small_net(seed);
}

inline void run_threads(int ranks, const std::function<void(Job&)>& body,
                        collective::Network network = collective::Network::kInProcess) {
  at::set_num_threads(1);
  collective::run_ranks(network, ranks, [&body](Job& job) {
    try {
      body(job);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << job.rank() << ": " << error.what();
      job.close();
    }
  });
}

// The identity, whose backward pass throws.
struct BreaksInBackward : torch::autograd::Function<BreaksInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               torch::autograd::tensor_list) {
    throw std::runtime_error("no backward");
  }
};

}  // namespace tally::adapter
