// A trained model is used: from the command line, and from Python without Tally.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

class TrainUse : public WithTrainings {
 protected:
  // The output of `tally` with these words; expects it to succeed.
  std::string tally(const std::vector<std::string>& words) {
    return output_of(TALLY_PROGRAM, words);
  }
  std::string python(const std::string& program, const std::vector<std::string>& words) {
    std::vector<std::string> all = {"-c", program};
    all.insert(all.end(), words.begin(), words.end());
    return output_of("/usr/bin/python3", all);
  }
  std::string refusal_of(const std::vector<std::string>& words, int code) {
    Child child({.command = with(TALLY_PROGRAM, words), .variables = {}});
    EXPECT_TRUE(child.exits(code, kTrainingTime)) << child.transcript();
    return child.errors();
  }
  std::string runs(const std::string& name) const { return folder_.file("runs-" + name); }

 private:
  static std::vector<std::string> with(const std::string& program,
                                       const std::vector<std::string>& words) {
    std::vector<std::string> command = {program};
    command.insert(command.end(), words.begin(), words.end());
    return command;
  }
  std::string output_of(const std::string& program, const std::vector<std::string>& words) {
    Child child({.command = with(program, words), .variables = {}});
    EXPECT_TRUE(child.exits(0, kTrainingTime)) << child.transcript();
    return child.output();
  }
};

constexpr const char* kPredictInPython = R"(
import csv, sys, torch
model = torch.jit.load(sys.argv[1])
for answer in model.predict(list(csv.DictReader(open(sys.argv[2])))):
    print("%s %.4f" % answer if isinstance(answer, tuple) else "%.7g" % answer)
)";

TEST_F(TrainUse, TablePredictsTheSameOnTheCommandLineAndInPython) {
  const auto result = result_of({"mlp", "--data", folder_.table(300), "--workers", "1", "--width",
                                 "8", "--epochs", "6", "--checkpoint", runs("t")});
  // The evaluation of the stored model is the last one of the training.
  const auto judged = nlohmann::json::parse(tally({"eval", runs("t"), "--json"}), nullptr, false);
  EXPECT_EQ(judged.value("accuracy", -1.0), result.value("accuracy", -2.0)) << judged << result;
  // Columns in another order, beside others, and a missing value.
  const std::string input = folder_.file("new.csv");
  write_file(input, "id,y,x\n1,0.9,0.9\n2,-0.9,-0.8\n3,,0.1\n");
  const std::string lines = tally({"predict", runs("t"), "--input", input});
  EXPECT_THAT(lines, HasSubstr(input + ":1  over 0."));
  EXPECT_THAT(lines, HasSubstr(input + ":2  under 0."));
  const std::string exported = folder_.file("model.pt");
  tally({"export", runs("t"), "--to", exported});
  std::string expected;
  const std::string answers = python(kPredictInPython, {exported, input});
  int number = 0;
  for (std::size_t at = 0; at < answers.size(); at = answers.find('\n', at) + 1)
    expected += fmt::format("{}:{}  {}\n", input, ++number,
                            answers.substr(at, answers.find('\n', at) - at));
  EXPECT_EQ(lines, expected);
}

constexpr const char* kGenerateInPython = R"(
import sys, torch
print(torch.jit.load(sys.argv[1]).generate("the quick", 40, 0.0))
)";

TEST_F(TrainUse, TextIsContinuedTheSameOnTheCommandLineAndInPython) {
  result_of({"gpt",
             "--data",
             folder_.text(),
             "--workers",
             "1",
             "--batch",
             "8",
             "--layers",
             "1",
             "--width",
             "16",
             "--context",
             "16",
             "--steps",
             "40",
             "--sample-length",
             "0",
             "--eval-every",
             "never",
             "--checkpoint",
             runs("g")});
  const std::string exported = folder_.file("model.pt");
  tally({"export", runs("g"), "--to", exported});
  const std::string text = tally(
      {"generate", runs("g"), "--prompt", "the quick", "--tokens", "40", "--temperature", "0"});
  EXPECT_EQ(text.size(), std::string("the quick").size() + 40 + 1);
  EXPECT_EQ(text, python(kGenerateInPython, {exported}));
  EXPECT_THAT(refusal_of({"generate", runs("g"), "--prompt", "THE"}, 1),
              HasSubstr("--prompt: offset 0: expected one of the"));
  EXPECT_THAT(refusal_of({"predict", runs("g"), "--input", "x.txt"}, 1),
              HasSubstr("use `tally generate"));
}

constexpr const char* kJudgeInPython = R"(
import sys, torch
pixels = open(sys.argv[2] + "/t10k-images-idx3-ubyte", "rb").read()[16:]
labels = open(sys.argv[2] + "/t10k-labels-idx1-ubyte", "rb").read()[8:]
images = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).reshape(-1, 1, 28, 28)
answers = torch.jit.load(sys.argv[1]).predict(images)
print(sum(int(name) == label for (name, _), label in zip(answers, labels)) / len(labels))
)";

TEST_F(TrainUse, ExportedImagesModelHasTheAccuracyOfTheTraining) {
  const std::string images = folder_.images(64);
  const auto result = result_of({"lenet", "--data", images, "--workers", "1", "--epochs", "1",
                                 "--batch", "8", "--rate", "0.002", "--checkpoint", runs("i")});
  const std::string exported = folder_.file("model.pt");
  tally({"export", runs("i"), "--to", exported});
  EXPECT_EQ(std::stod(python(kJudgeInPython, {exported, images})), result.value("accuracy", -1.0));
  const auto judged =
      nlohmann::json::parse(tally({"eval", runs("i"), "--data", images, "--json"}), nullptr, false);
  EXPECT_EQ(judged.value("accuracy", -1.0), result.value("accuracy", -2.0));
  EXPECT_THAT(refusal_of({"predict", runs("i"), "--input", folder_.table(3)}, 1),
              HasSubstr("the model takes images"));
  EXPECT_THAT(refusal_of({"export", runs("i"), "--to", "x.onnx"}, 2), HasSubstr("ONNX"));
}

TEST_F(TrainUse, TrainingStartsFromExportedWeights) {
  const std::string table = folder_.table(200);
  result_of({"mlp", "--data", table, "--workers", "1", "--width", "8", "--epochs", "4",
             "--checkpoint", runs("first")});
  const std::string weights = folder_.file("weights.safetensors");
  tally({"export", runs("first"), "--to", weights});
  // A rate of almost zero leaves the weights as they are, so the test loss is that of the first.
  const auto before =
      nlohmann::json::parse(tally({"eval", runs("first"), "--json"}), nullptr, false);
  const auto after = result_of({"mlp", "--data", table, "--workers", "2", "--width", "8", "--steps",
                                "1", "--rate", "1e-12", "--init", weights});
  EXPECT_THAT(output_, HasSubstr("--init: 6 tensors from " + weights));
  EXPECT_NEAR(after.value("test_loss", -1.0), before.value("loss", -2.0), 1e-6);
  Child other = folder_.train({"mlp", "--data", table, "--width", "9", "--init", weights});
  EXPECT_TRUE(other.exits(2, kTrainingTime)) << other.transcript();
  EXPECT_THAT(other.errors(), HasSubstr("fc1.weight: the module has [9, 2], the file [8, 2]"));
}

}  // namespace
}  // namespace tally::process
