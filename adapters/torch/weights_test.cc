#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/test_nets.h"

namespace tally::adapter {
namespace {

// One tensor of a file that another program wrote.
struct FileTensor {
  std::string name;
  std::string type;  // as in safetensors
  at::Tensor values;
};

// A file of weights, made byte by byte; removed by the destructor.
class WeightsTestFile {
 public:
  explicit WeightsTestFile(const std::vector<FileTensor>& tensors)
      : path_(std::filesystem::temp_directory_path() /
              ("tally_weights_" + std::to_string(::getpid()) + ".safetensors")) {
    std::string header = "{";
    std::string data;
    for (const FileTensor& tensor : tensors) {
      const auto bytes = bytes_of(tensor.values);
      header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                            data.empty() ? "" : ",", tensor.name, tensor.type,
                            fmt::join(tensor.values.sizes(), ","), data.size(),
                            data.size() + bytes.size());
      for (const std::byte byte : bytes) data += static_cast<char>(byte);
    }
    header += "}";
    std::ofstream file(path_, std::ios::binary);
    for (int i = 0; i < 8; ++i) file.put(static_cast<char>(std::uint64_t{header.size()} >> 8 * i));
    file << header << data;
  }
  ~WeightsTestFile() { std::filesystem::remove(path_); }

  std::unique_ptr<checkpoint::Reader> open() const {
    return or_throw(checkpoint::Reader::open(path_));
  }

 private:
  const std::filesystem::path path_;
};

struct WeightsNet : torch::nn::Module {
  WeightsNet() { fc->weight.detach().zero_(); }
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(2, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(3));
};

TEST(LoadWeights, ConvertsToTheTypeOfEachParameterAndBuffer) {
  // All values are exact in bfloat16.
  const at::Tensor weight = at::arange(6, at::kFloat).reshape({3, 2}) / 4;
  const at::Tensor bias = at::tensor({1.5, -2.0, 0.25}, at::kFloat);
  const WeightsTestFile file(
      {{"fc.bias", "F16", bias.to(at::kHalf)},
       {"fc.weight", "BF16", weight.to(at::kBFloat16)},
       {"norm.bias", "F32", bias},
       {"norm.weight", "F64", (bias * 2).to(at::kDouble)},
       {"norm.running_mean", "F32", bias * 3},
       {"norm.running_var", "F32", bias * 4},
       {"norm.num_batches_tracked", "I64", at::scalar_tensor(7, at::kLong)}});
  WeightsNet net;
  net.norm->to(at::kDouble);  // also the counter of batches
  const LoadReport report = load_weights(net, *file.open());
  EXPECT_TRUE(report.is_complete()) << to_string(report);
  EXPECT_EQ(report.loaded, 7U);
  EXPECT_EQ(to_string(report), "7 tensors loaded");
  EXPECT_TRUE(at::equal(net.fc->weight, weight));
  EXPECT_TRUE(at::equal(net.fc->bias, bias));
  EXPECT_TRUE(net.fc->weight.requires_grad());
  EXPECT_TRUE(at::equal(net.norm->weight, (bias * 2).to(at::kDouble)));
  EXPECT_TRUE(at::equal(net.norm->bias, bias.to(at::kDouble)));
  EXPECT_TRUE(at::equal(net.norm->running_mean, (bias * 3).to(at::kDouble)));
  EXPECT_TRUE(at::equal(net.norm->running_var, (bias * 4).to(at::kDouble)));
  EXPECT_EQ(net.norm->num_batches_tracked.item<double>(), 7);
}

TEST(LoadWeights, ReportsEveryDifferenceAndLeavesThoseTensors) {
  const WeightsTestFile file({{"head.weight", "F32", at::zeros({1})},
                              {"fc.weight", "F32", at::ones({2, 3})},
                              {"norm.num_batches_tracked", "F32", at::scalar_tensor(1)},
                              {"fc.bias", "F32", at::ones({3})}});
  WeightsNet net;
  const LoadReport report = load_weights(net, *file.open());
  EXPECT_FALSE(report.is_complete());
  EXPECT_EQ(report.loaded, 1U);
  EXPECT_THAT(report.missing, testing::ElementsAre("norm.weight", "norm.bias", "norm.running_mean",
                                                   "norm.running_var"));
  EXPECT_THAT(report.unexpected, testing::ElementsAre("head.weight"));
  EXPECT_THAT(
      report.mismatched,
      testing::ElementsAre("fc.weight: the module has [3, 2], the file [2, 3]",
                           "norm.num_batches_tracked: the module has Long, the file float32"));
  EXPECT_TRUE(at::equal(net.fc->weight, at::zeros({3, 2})));
  EXPECT_TRUE(at::equal(net.fc->bias, at::ones({3})));
  EXPECT_THAT(to_string(report), testing::HasSubstr("not in the module: head.weight\ndifferent: "));
}

TEST(LoadWeights, TiedParametersNeedOneName) {
  struct Tied : torch::nn::Module {
    Tied() { register_parameter("again", weight); }
    at::Tensor weight = register_parameter("weight", at::zeros({2}));
  };
  for (const char* const name : {"weight", "again"}) {
    const WeightsTestFile file({{name, "F32", at::ones({2})}});
    Tied net;
    const LoadReport report = load_weights(net, *file.open());
    EXPECT_TRUE(report.is_complete()) << name << ": " << to_string(report);
    EXPECT_TRUE(at::equal(net.weight, at::ones({2}))) << name;
  }
}

TEST(LoadWeights, OnRankZeroReachAllRanksOfATrainer) {
  const WeightsTestFile file({{"weight", "F32", at::full({3, 2}, 5.0F)}});
  run_threads(2, [&](Job& job) {
    torch::nn::Linear net(torch::nn::LinearOptions(2, 3).bias(false));
    if (job.rank() == 0) load_weights(*net, *file.open());
    Trainer trainer(job, *net, sgd({.rate = 0.1}));
    EXPECT_TRUE(at::equal(net->weight, at::full({3, 2}, 5.0F)));
    ASSERT_TRUE(job.world().barrier().has_value());
  });
}

TEST(LoadWeights, AFileOfWeightsIsNoCheckpointToRestore) {
  const WeightsTestFile file(
      {{"weight", "F32", at::zeros({1, 1})}, {"bias", "F32", at::zeros({1})}});
  run_threads(1, [&](Job& job) {
    torch::nn::Linear net(1, 1);
    Trainer trainer(job, *net, sgd({.rate = 0.1}));
    try {
      trainer.restore(*file.open());
      ADD_FAILURE() << "restored";
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), testing::HasSubstr("load it with load_weights()"));
    }
  });
}

}  // namespace
}  // namespace tally::adapter
