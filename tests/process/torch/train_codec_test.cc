// `tally train lenet --plan "codec=..."` with codecs of every family: it trains, and a resumed
// training ends with the same bits. The cases cover 1 to 4 workers on both homes.
#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"
#include "tally/checkpoint.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Case {
  std::string name;  // of the test
  std::string codec;
  int group_workers = 1;
  int server_workers = 1;
  bool remembers = false;  // checkpoints contain the codec's residuals

  friend void PrintTo(const Case& each, std::ostream* out) { *out << each.codec; }
};

// One of each family, with settings that reach the end of warm-ups in a few steps. torch_test
// resumes with every codec, inside one process.
const std::vector<Case> kCases = {
    {"None", "none", 3, 2, false},
    {"Int8", "int8", 3, 1, true},
    {"OnebitAdam", "onebit-adam:2", 4, 2, true},
    {"Dgc", "dgc:0.02,warmup=4", 2, 4, true},
    {"Zstd", "topk:0.05+zstd", 1, 3, true},
    {"Powersgd", "powersgd:2", 2, 3, true},
    {"Auto", "auto", 2, 3, false},
};

class TrainCodec : public testing::TestWithParam<Case> {
 protected:
  Child start(const std::string& saved, int workers, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"lenet",
                                      "--data",
                                      images_,
                                      "--batch",
                                      "6",
                                      "--steps",
                                      "8",
                                      "--schedule",
                                      "constant",
                                      "--eval-every",
                                      "8",
                                      "--checkpoint-every",
                                      "4",
                                      "--threads",
                                      "1",
                                      "--workers",
                                      std::to_string(workers),
                                      "--checkpoint",
                                      folder_.file(saved),
                                      "--plan",
                                      "codec=" + GetParam().codec};
    // 1-bit Adam needs the optimizer Adam.
    if (GetParam().codec.rfind("onebit-adam", 0) == 0)
      words.insert(words.end(), {"--optimizer", "adam", "--rate", "0.001"});
    words.insert(words.end(), more.begin(), more.end());
    return folder_.train(words);
  }

  std::string step(const std::string& saved, int number) const {
    return fmt::format("{}/step-{:010}", folder_.file(saved), number);
  }

  // The content of a checkpoint by name: values, the state of optimizer and codec, and the random
  // states of ranks.
  static std::map<std::string, std::string> content_of(const std::string& checkpoint) {
    std::map<std::string, std::string> content;
    const auto reader = checkpoint::Reader::open(checkpoint);
    EXPECT_TRUE(reader.has_value()) << checkpoint;
    if (!reader) return content;
    for (const auto& tensor : (*reader)->tensors()) {
      std::string& bytes = content["value " + tensor.name];
      bytes.resize(bytes_in(tensor));
      EXPECT_TRUE((*reader)->read(tensor.name, 0, std::as_writable_bytes(std::span(bytes))));
    }
    for (const auto& tensor : (*reader)->state_tensors()) {
      std::string& bytes = content["state " + tensor.name];
      bytes.resize(bytes_in(tensor));
      EXPECT_TRUE((*reader)->read_state(tensor.name, 0, std::as_writable_bytes(std::span(bytes))));
    }
    for (Rank rank = 0; rank < (*reader)->ranks(); ++rank)
      content[fmt::format("random {}", rank)] = (*reader)->rank_state(rank).value();
    return content;
  }
  static std::size_t bytes_in(const checkpoint::TensorInfo& tensor) {
    std::size_t bytes = size_of(tensor.type);
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::size_t>(size);
    return bytes;
  }

  // Trains eight steps, and resumes from the fourth.
  void train_and_resume(int workers, const std::vector<std::string>& more) {
    Child whole = start("whole", workers, more);
    ASSERT_TRUE(whole.exits(0, kTrainingTime)) << whole.transcript();
    EXPECT_THAT(whole.output(), HasSubstr("completed after"));
    fs::create_directory(folder_.file("half"));
    fs::copy(step("whole", 4), step("half", 4), fs::copy_options::recursive);
    std::vector<std::string> resumed = more;
    resumed.emplace_back("--resume");
    Child rest = start("half", workers, resumed);
    ASSERT_TRUE(rest.exits(0, kTrainingTime)) << rest.transcript();
    EXPECT_THAT(rest.output(), HasSubstr("resumed from step 4"));
    auto expected = content_of(step("whole", 8));
    auto found = content_of(step("half", 8));
    // With servers one worker writes the checkpoint, without the random states of the others, which
    // lenet does not use.
    if (!more.empty() && workers > 1)
      for (auto* content : {&expected, &found}) content->erase("random 0");
    EXPECT_FALSE(content_of(step("whole", 4)) == expected);  // the last steps did something
    EXPECT_GE(expected.size(), 20U);                         // ten parameters and their momentum
    const auto is_memory = [](const auto& each) {
      return each.first.find("/codec.") != std::string::npos;
    };
    EXPECT_EQ(std::any_of(expected.begin(), expected.end(), is_memory), GetParam().remembers);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, bytes] : expected)
      EXPECT_TRUE(found.at(name) == bytes) << name << " differs";
  }

  const TrainingFolder folder_;
  const std::string images_ = folder_.images(60);
};

// Two suites, so that they run in parallel.
class TrainCodecInTheGroup : public TrainCodec {};
class TrainCodecOnServers : public TrainCodec {};

TEST_P(TrainCodecInTheGroup, ResumesWithTheSameBits) {
  train_and_resume(GetParam().group_workers, {});
}

TEST_P(TrainCodecOnServers, ResumesWithTheSameBitsOrIsRefused) {
  if (GetParam().codec == "auto") {
    Child refused = start("whole", 2, {"--servers", "1,colocated"});
    EXPECT_FALSE(refused.exits(0, kTrainingTime));
    EXPECT_THAT(refused.errors(), HasSubstr("codec=auto"));
    return;
  }
  train_and_resume(GetParam().server_workers, {"--servers", "1,colocated"});
}

INSTANTIATE_TEST_SUITE_P(All, TrainCodecInTheGroup, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });
INSTANTIATE_TEST_SUITE_P(All, TrainCodecOnServers, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tally::process
