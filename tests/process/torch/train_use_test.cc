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

// Rows in libsvm's form, whose label depends on the last index.
std::string sparse_rows(int count) {
  std::string rows;
  for (int i = 0; i < count; ++i)
    rows += i % 2 == 0 ? fmt::format("+1 {}:1 500:0.5\n", 1 + i % 7)
                       : fmt::format("-1 {}:1 600:2\n", 1 + i % 7);
  return rows;
}

std::size_t folders_in(const std::string& folder, const std::string& start) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(start)) ++count;
  return count;
}

// The probability of the answer by the exported weights, which have their keys beside them. A key
// is an index that begins with 0.
constexpr const char* kLogisticInPython = R"(
import csv, json, math, struct, sys
data = open(sys.argv[1], "rb").read()
(length,) = struct.unpack_from("<Q", data)
header = json.loads(data[8:8 + length])
def tensor(name, letter):
    form = "<%d%s" % (math.prod(header[name]["shape"]), letter)
    return struct.unpack_from(form, data, 8 + length + header[name]["data_offsets"][0])
keys = tensor("linear.keys", "q")
assert list(keys) == sorted(set(keys)) and 499 in keys and 76 not in keys
weights = dict(zip(keys, tensor("linear.weight", "f")))
(bias,) = tensor("bias", "f")
for line, answer in zip(open(sys.argv[2]), csv.DictReader(open(sys.argv[3]))):
    entries = [entry.split(":") for entry in line.split()[1:]]
    logit = bias + sum(weights.get(int(key) - 1, 0.0) * float(value) for key, value in entries)
    share = 1 / (1 + math.exp(-logit))
    assert abs(max(share, 1 - share) - float(answer["probability"])) < 2e-6, (line, share, answer)
    print(line.split()[0])
)";

TEST_F(TrainUse, RowsOfServersAreUsedFromTheSnapshotBesideTheCheckpoint) {
  const std::string data = folder_.file("rows");
  write_file(data, sparse_rows(200));
  const auto result = result_of({"logistic", "--data", data, "--workers", "2", "--servers", "1",
                                 "--batch", "20", "--epochs", "4", "--rows", "64", "--checkpoint",
                                 runs("s"), "--checkpoint-every", "4", "--keep", "2"});
  EXPECT_EQ(folders_in(runs("s"), "step-"), 2U);
  EXPECT_EQ(folders_in(runs("s") + "/snapshots", "step-"), 2U);
  std::filesystem::rename(runs("s"), runs("moved"));
  const auto judged =
      nlohmann::json::parse(tally({"eval", runs("moved"), "--json"}), nullptr, false);
  EXPECT_EQ(judged.value("accuracy", -1.0), result.value("accuracy", -2.0)) << judged << result;
  EXPECT_NEAR(judged.value("loss", -1.0), result.value("test_loss", -2.0), 1e-6);
  // The training has not seen the index 77.
  const std::string input = folder_.file("new");
  write_file(input, "+1 3:1 500:0.5\n-1 2:1 600:2\n+1 4:1 77:9\n");
  write_file(folder_.file("answers.csv"),
             tally({"predict", runs("moved"), "--input", input, "--format", "csv"}));
  const std::string weights = folder_.file("weights.safetensors");
  tally({"export", runs("moved"), "--to", weights});
  EXPECT_EQ(python(kLogisticInPython, {weights, input, folder_.file("answers.csv")}),
            "+1\n-1\n+1\n");
  EXPECT_THAT(refusal_of({"export", runs("moved"), "--to", folder_.file("x.pt")}, 1),
              HasSubstr("the rows of linear by key"));
  std::filesystem::remove_all(runs("moved") + "/snapshots");
  EXPECT_THAT(refusal_of({"eval", runs("moved")}, 1), HasSubstr("copy it there, or to "));
}

TEST_F(TrainUse, RowsStartAndContinueATrainingInTheHomeThatCanHaveThem) {
  const std::string data = folder_.file("rows");
  write_file(data, sparse_rows(200));
  const std::vector<std::string> common = {"logistic", "--data", data,     "--workers", "1",
                                           "--batch",  "20",     "--rows", "1024"};
  const auto with_words = [&common](const std::vector<std::string>& words) {
    std::vector<std::string> all = common;
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  result_of(
      with_words({"--servers", "1", "--epochs", "3", "--checkpoint", runs("s"), "--keep", "1"}));
  std::filesystem::rename(runs("s"), runs("moved"));
  const std::string weights = folder_.file("weights.safetensors");
  tally({"export", runs("moved"), "--to", weights});
  const double loss =
      nlohmann::json::parse(tally({"eval", runs("moved"), "--json"}), nullptr, false)
          .value("loss", -1.0);
  EXPECT_LT(loss, 0.6);
  // A rate of almost zero leaves the weights as they are.
  const auto start = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all =
        with_words({"--steps", "1", "--optimizer", "sgd", "--rate", "1e-12"});
    all.insert(all.end(), words.begin(), words.end());
    return result_of(all).value("test_loss", -2.0);
  };
  EXPECT_NEAR(start({"--servers", "1", "--init", runs("moved")}), loss, 1e-6);
  EXPECT_THAT(output_, HasSubstr("--init: 1 tensors and the rows of linear from "));
  EXPECT_NEAR(start({"--servers", "1,colocated", "--init", weights}), loss, 1e-6);
  // Every key is below 1024, so it has a row of its own.
  EXPECT_NEAR(start({"--init", weights, "--checkpoint", runs("group")}), loss, 1e-6);
  const auto refused = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"train"};
    for (const std::string& word : with_words(words)) all.push_back(word);
    return refusal_of(all, 2);
  };
  EXPECT_THAT(refused({"--rows", "3", "--init", weights}), HasSubstr("with more --rows"));
  EXPECT_THAT(refused({"--servers", "1", "--init", runs("group")}),
              HasSubstr("servers have rows by key: train with home=group"));
  EXPECT_THAT(
      refused({"--servers", "1", "--steps", "9", "--checkpoint", runs("group"), "--resume"}),
      HasSubstr("continue with home=group"));
  EXPECT_THAT(refused({"--epochs", "4", "--checkpoint", runs("moved"), "--resume"}),
              HasSubstr("continue with home=server"));
  result_of(with_words({"--servers", "1", "--epochs", "4", "--checkpoint", runs("moved"), "--keep",
                        "1", "--resume"}));
  EXPECT_EQ(folders_in(runs("moved") + "/snapshots", "step-"), 1U);
}

}  // namespace
}  // namespace tally::process
