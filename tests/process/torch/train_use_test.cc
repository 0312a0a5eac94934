// A trained model is used: from the command line, and from Python without Tally.
#include <filesystem>
#include <sstream>

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
  // The lines of `tally predict` for these answers, one per line.
  static std::string numbered(const std::string& input, const std::string& answers) {
    std::string lines;
    int number = 0;
    for (std::size_t at = 0; at < answers.size(); at = answers.find('\n', at) + 1)
      lines += fmt::format("{}:{}  {}\n", input, ++number,
                           answers.substr(at, answers.find('\n', at) - at));
    return lines;
  }
  // A limit of the file size stands for a full disk.
  void expect_no_export_on_a_full_disk(const std::string& run) {
    const std::string file = folder_.file("full.pt");
    const std::string command = fmt::format("trap '' XFSZ; ulimit -f 1; exec {} export {} --to {}",
                                            TALLY_PROGRAM, run, file);
    Child child({.command = {"/bin/sh", "-c", command}, .variables = {}});
    EXPECT_TRUE(child.exits(1, kTrainingTime)) << child.transcript();
    EXPECT_THAT(child.errors(), HasSubstr("tally export: cannot write " + file + ": "));
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with("full.pt")) << entry.path();
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

// Prints the refusal of each text in the numeric column of this name.
constexpr const char* kRefusalsInPython = R"(
import sys, torch
model = torch.jit.load(sys.argv[1])
for text in sys.argv[3:]:
    row = {name: "1" for name in model.columns}
    row[sys.argv[2]] = text
    try:
        print("accepted", model.predict([row]))
    except Exception as error:
        print(str(error).split("AssertionError: ")[-1].strip())
)";

// The lines that kRefusalsInPython prints for a numeric column.
std::string expected_refusals(const std::string& column, const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts)
    lines += fmt::format("expected a number in column {}, found {}\n", column, text);
  return lines;
}

TEST_F(TrainUse, TablePredictsTheSameOnTheCommandLineAndInPython) {
  const auto result = result_of({"mlp", "--data", folder_.table(300), "--workers", "1", "--width",
                                 "8", "--epochs", "6", "--checkpoint", runs("t")});
  EXPECT_THAT(output_, HasSubstr("is saved in " + runs("t") + "\n"));
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
  expect_no_export_on_a_full_disk(runs("t"));
  EXPECT_EQ(lines, numbered(input, python(kPredictInPython, {exported, input})));
  EXPECT_EQ(python(kRefusalsInPython, {exported, "x", "0x1F", "ten", "1e39"}),
            expected_refusals("x", {"0x1F", "ten", "1e39"}));
}

// Categories that are not ASCII, unknown or missing, and numbers of all kinds.
TEST_F(TrainUse, TableOfKeysPredictsTheSameOnTheCommandLineAndInPython) {
  const std::string table = folder_.file("shops.csv");
  std::string rows = "stra\xc3\x9f\x65,\xe5\x8c\xba,shop,amount,bought\n";
  const char* const towns[] = {"K\xc3\xb6ln", "\xe6\x9d\xb1\xe4\xba\xac", "Ulm", ""};
  for (int i = 0; i < 240; ++i)
    rows += fmt::format("s{},{},{},{}.5,{}\n", i % 50, towns[i % 4], i % 6, i * 7 % 240,
                        (i % 4 < 2) == (i % 6 < 3) ? "ja" : "nein");
  write_file(table, rows);
  result_of({"deepfm", "--data", table, "--target", "bought", "--workers", "1", "--rows", "1024",
             "--hidden", "16", "--rate", "0.02", "--epochs", "4", "--l2", "0.001", "--checkpoint",
             runs("k")});
  EXPECT_THAT(output_, HasSubstr("4 columns as 6 slots of keys, target bought (ja or nein); 10 %"));
  const std::string input = folder_.file("new.csv");
  write_file(input,
             "amount,\xe5\x8c\xba,id,stra\xc3\x9f\x65,shop\n3.5,K\xc3\xb6ln,1,s1,2\n"
             "1e30,\xe6\x9d\xb1\xe4\xba\xac,2,unknown\xf0\x9f\x98\x80,4.0\n,?,3,,\n"
             "-2,\" Ulm \",4,s3,2.5\n17.5,NA,5,s49,-3\n");
  const std::string exported = folder_.file("model.pt");
  tally({"export", runs("k"), "--to", exported});
  EXPECT_EQ(tally({"predict", runs("k"), "--input", input}),
            numbered(input, python(kPredictInPython, {exported, input})));
  EXPECT_EQ(python(kRefusalsInPython, {exported, "amount", "0x1F", "ten", "1e39"}),
            expected_refusals("amount", {"0x1F", "ten", "1e39"}));
  EXPECT_THAT(tally({"eval", runs("k"), "--data", table}), HasSubstr(" on 240 samples: loss 0."));
}

constexpr const char* kPredictKeysInPython = R"(
import sys, torch
model = torch.jit.load(sys.argv[1])
keys = torch.tensor([[0, 7, 3999999], [2, -1, -1]])
values = torch.tensor([[1.0, -0.5, 2.0], [3.0, 0.0, 0.0]])
for answer in model.predict(keys, values):
    print("%s %.4f" % answer)
)";

TEST_F(TrainUse, SparseVectorsPredictTheSameOnTheCommandLineAndInPython) {
  const std::string data = folder_.file("sparse");
  std::string rows;
  for (int i = 0; i < 100; ++i)
    rows += fmt::format("{} {}:1 8:{} 4000000:0.5\n", i % 3 == 0 ? "-1" : "1", 1 + i % 5, i % 3);
  write_file(data, rows);
  result_of({"logistic", "--data", data, "--workers", "1", "--rows", "1024", "--epochs", "2",
             "--checkpoint", runs("s")});
  const std::string exported = folder_.file("model.pt");
  tally({"export", runs("s"), "--to", exported});
  const std::string input = folder_.file("new");
  write_file(input, "1 1:1 8:-0.5 4000000:2\n1 3:3\n");
  EXPECT_EQ(tally({"predict", runs("s"), "--input", input}),
            numbered(input, python(kPredictKeysInPython, {exported})));
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

constexpr const char* kGenerateBytesInPython = R"(
import sys, torch
model = torch.jit.load(sys.argv[1])
prompt = list("fa\xe7ade".encode())
sys.stdout.buffer.write(bytes(model.generate_bytes(prompt, 30, 0.0)) + b"\n")
print(model.generate("fa\xe7ade", 30, 0.0))
text = model.decode([0xe9, 0x61, 0xe2, 0x82, 0xac, 0xff, 0xed, 0xa0, 0x80])
assert text == "\ufffda\u20ac" + 4 * "\ufffd", text
)";

TEST_F(TrainUse, BytesAreContinuedTheSameOnTheCommandLineAndInPython) {
  const std::string data = folder_.file("bytes.txt");
  std::string text;
  for (int i = 0; i < 200; ++i) text += "fa\xc3\xa7\x61\x64\x65 \xe2\x82\xac 5. \xff ";
  write_file(data, text);
  result_of({"gpt",
             "--data",
             data,
             "--bytes",
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
             "300",
             "--rate",
             "0.01",
             "--sample-length",
             "0",
             "--eval-every",
             "never",
             "--checkpoint",
             runs("b")});
  const std::string exported = folder_.file("model.pt");
  tally({"export", runs("b"), "--to", exported});
  const std::string prompt = "fa\xc3\xa7\x61\x64\x65";
  const std::string line =
      tally({"generate", runs("b"), "--prompt", prompt, "--tokens", "30", "--temperature", "0"});
  EXPECT_EQ(line.size(), prompt.size() + 30 + 1);
  const std::string both = python(kGenerateBytesInPython, {exported});
  EXPECT_EQ(both.substr(0, line.size()), line);
  EXPECT_THAT(both.substr(line.size()), testing::StartsWith(prompt));
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
  const std::string parts = folder_.file("parts");
  for (const char* part : {"/train/one", "/test/one"}) {
    std::filesystem::create_directories(parts + part);
    write_file(parts + part + "/1.png", "");
  }
  EXPECT_THAT(refusal_of({"predict", runs("i"), "--input", parts}, 1),
              HasSubstr(fmt::format("name {0}/train, {0}/test or both", parts)));
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
  EXPECT_THAT(output_, HasSubstr("the model was not kept; --checkpoint DIR keeps it"));
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

constexpr const char* kErrorInPython = R"(
import csv, math, sys
prices = [float(row["price"]) for row in csv.DictReader(open(sys.argv[1]))]
answers = [float(row["value"]) for row in csv.DictReader(open(sys.argv[2]))]
squares = sum((a - p) ** 2 for a, p in zip(answers, prices, strict=True))
mean = sum(prices) / len(prices)
print(math.sqrt(squares / len(prices)), 1 - squares / sum((p - mean) ** 2 for p in prices))
)";

TEST_F(TrainUse, ARegressionIsJudgedInTheUnitOfItsTarget) {
  std::string rows = "rooms,price\n";
  for (int i = 0; i < 60; ++i) rows += fmt::format("{},{}\n", i % 9, 1000 + 300 * (i % 9) + i % 7);
  const std::string table = folder_.file("prices.csv");
  write_file(table, rows);
  const auto result = result_of({"mlp", "--data", table, "--workers", "2", "--width", "8",
                                 "--epochs", "5", "--checkpoint", runs("r")});
  const auto held_out = nlohmann::json::parse(tally({"eval", runs("r"), "--json"}), nullptr, false);
  EXPECT_NEAR(held_out.value("rmse", -1.0), result.value("rmse", -2.0), 1e-3);
  // The oracle computes the figures from printed predictions.
  const auto judged =
      nlohmann::json::parse(tally({"eval", runs("r"), "--data", table, "--json"}), nullptr, false);
  const std::string answers = folder_.file("answers.csv");
  write_file(answers, tally({"predict", runs("r"), "--input", table, "--format", "csv"}));
  std::istringstream expected(python(kErrorInPython, {table, answers}));
  double rmse = 0;
  double r2 = 0;
  expected >> rmse >> r2;
  EXPECT_NEAR(judged.value("rmse", -1.0), rmse, 1e-4 * rmse);
  EXPECT_NEAR(judged.value("r2", -1.0), r2, 1e-5);
}

}  // namespace
}  // namespace tally::process
