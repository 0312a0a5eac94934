// Wrong options and data are refused in one line, before any worker is started.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "process/torch/training.h"

namespace tally::process {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

struct Refusal {
  std::vector<std::string> words;
  std::string says;
};

class TrainRefusal : public testing::Test {
 protected:
  void expect(const std::vector<Refusal>& refusals) {
    for (const Refusal& refusal : refusals) {
      SCOPED_TRACE(fmt::format("tally train {}", fmt::join(refusal.words, " ")));
      Child tally = folder_.train(refusal.words);
      EXPECT_TRUE(tally.exits(2)) << tally.transcript();
      EXPECT_THAT(tally.errors(), HasSubstr(refusal.says));
      // No worker has printed anything.
      EXPECT_THAT(tally.output(), Not(HasSubstr(" x batch")));
      EXPECT_TRUE(folder_.left_nothing_behind());
    }
  }

  const TrainingFolder folder_;
};

TEST_F(TrainRefusal, OptionsThatMakeNoSense) {
  const std::string table = folder_.table(20);
  expect({
      {{"lenot"}, "there is no recipe lenot; did you mean lenet?"},
      {{"mlp", "--data", table, "--workers", "0"}, "--workers"},
      {{"mlp", "--data", table, "--batch", "x"}, "--batch"},
      {{"mlp", "--data", table, "--rate", "-1"}, "--rate"},
      {{"mlp", "--data", table, "--sped", "1"}, "--sped"},
      {{"mlp", "--data", table, "--optimizer", "adamm"}, "--optimizer: "},
      {{"mlp", "--data", table, "--schedule", "cosin"}, "--schedule: "},
      {{"mlp", "--data", table, "--plan", "update=sometimes"}, "--plan: "},
      {{"mlp", "--data", table, "--eval-every", "soon"}, "--eval-every: 'soon'"},
      {{"mlp", "--data", table, "--resume"}, "--resume: needs --checkpoint DIR"},
      {{"mlp", "--data", table, "--keep", "2"}, "--keep: needs --checkpoint DIR"},
      {{"mlp", "--data", table, "--checkpoint-every", "5"},
       "--checkpoint-every: needs --checkpoint DIR"},
      {{"mlp", "--data", table, "--optimizer", "adam:rate=0.1", "--rate", "0.2"},
       "another learning rate"},
      {{"mlp", "--data", table, "--eval-every", "never", "--early-stop", "2"},
       "--early-stop needs"},
      {{"mlp", "--data", table, "--device", "cpu", "--precision", "float16"}, "on GPUs only"},
      {{"mlp", "--data", table, "--device", "gpu"}, "as in cuda,cpu,cpu"},
      {{"mlp", "--data", table, "--device", "cpu,cpu,cpu", "--workers", "2"},
       "3 devices for 2 workers: give one for all of them, or one for each"},
      {{"mlp", "--data", table, "--device", "cpu,cpu", "--graphs"}, "--graphs: needs a GPU"},
      {{"mlp", "--data", table, "--channels-last", "on"}, "mlp has no convolutions over pictures"},
      {{"mlp", "--data", table, "--balance", "fast"}, "choose one of even, speed"},
      {{"mlp", "--data", table, "--balance", "speed", "--plan", "home=server"},
       "--balance speed: with home=server the workers do not agree"},
      {{"mlp", "--data", table, "--balance", "speed", "--plan", "data=replicate"},
       "data=partition divides them"},
      {{"mlp", "--data", table, "--checkpoint", folder_.file("saved"), "--checkpoint-every", "best",
        "--eval-every", "never"},
       "--checkpoint-every best needs evaluations"},
      {{"linear", "--target-accuracy", "0.5"}, "--target-accuracy"},
      {{"gpt", "--data", folder_.text(), "--width", "30", "--heads", "4"}, "does not divide"},
      {{"mlp", "--data", table, "--config", folder_.file("none")}, "none"},
  });
}

// Whether libtorch has no CUDA or sees no GPU: one line says why, and what to do.
TEST_F(TrainRefusal, AGpuThatIsNotThere) {
  for (const char* devices : {"cuda", "cuda,cpu"}) {
    Child tally({.command = {TALLY_PROGRAM, "train", "mlp", "--data", folder_.table(20), "--device",
                             devices},
                 .variables = {{"TMPDIR", folder_.file("tmp")}, {"CUDA_VISIBLE_DEVICES", ""}}});
    EXPECT_TRUE(tally.exits(2)) << tally.transcript();
    EXPECT_THAT(tally.errors(), MatchesRegex("tally train: --device cuda: [^\n]*"
                                             "(install|update|check)[^\n]*--device cpu\n"));
    EXPECT_EQ(tally.output(), "");
  }
}

TEST_F(TrainRefusal, AProgramWithoutTallyTrainNamesThePackageToInstall) {
  const std::string alone = folder_.file("tally");
  std::filesystem::copy_file(TALLY_PROGRAM, alone);
  for (const char* command : {"train", "bench"}) {
    Child tally({.command = {alone, command, "train"}, .variables = {}});
    EXPECT_TRUE(tally.exits(2)) << tally.transcript();
    EXPECT_THAT(tally.errors(), HasSubstr("install libtorch-dev and build all targets"));
  }
}

TEST_F(TrainRefusal, DataThatAreMissingOrDoNotFit) {
  const std::string images = folder_.images(20);
  const std::string text = folder_.text();
  expect({
      {{"mlp", "--data", folder_.file("nothing")}, "nothing"},
      {{"lenet", "--data", folder_.table(20)}, "lenet takes labelled images"},
      {{"mlp", "--data", text}, "mlp takes"},
      {{"gpt", "--data", images}, "gpt takes a text"},
      {{"gpt", "--data", text, "--context", "100000"}, "--data: "},
      {{"mlp", "--data", folder_.table(20), "--target", "sid"},
       "no column sid; did you mean side? (columns: x, y, side)"},
      {{"mlp", "--data", folder_.table(20), "--validation", "2"}, "--validation 2: "},
      {{"mlp", "--data", folder_.table(20), "--validation", text},
       "--validation: " + text + " is of the kind text, and cannot be the test part"},
      {{"linear", "--target", "x"}, "need the --data they are for"},
  });
  const std::string labels = images + "/train-labels-idx1-ubyte";
  const std::string whole = contents_of(labels);
  write_file(labels, whole.substr(0, whole.size() - 3));
  expect({{{"lenet", "--data", images}, labels}});
  std::string wrong = whole;
  wrong[0] = 1;
  write_file(labels, wrong);
  expect({{{"lenet", "--data", images}, labels}});
}

TEST_F(TrainRefusal, PlacesThatCannotBeWrittenTo) {
  const std::string table = folder_.table(20);
  expect({
      {{"mlp", "--data", table, "--json", folder_.file("no/out.json")}, "there is no folder"},
      {{"mlp", "--data", table, "--report", folder_.path()}, "this is a folder"},
      {{"mlp", "--data", table, "--checkpoint", table + "/checkpoints"}, "is no folder"},
  });
}

TEST_F(TrainRefusal, CheckpointsThatDoNotFit) {
  const std::string table = folder_.table(60);
  const std::string saved = folder_.file("saved");
  const std::vector<std::string> words = {
      "mlp", "--data",    table, "--checkpoint",       saved, "--steps",
      "4",   "--workers", "2",   "--checkpoint-every", "2"};
  const auto with = [&words](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  expect({{with({"--resume", "--width", "8"}), "--resume: "}});  // there is none
  Child tally = folder_.train(with({"--width", "8"}));
  ASSERT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
  expect({
      {with({"--resume=2", "--width", "9"}), "another model"},
      {with({"--resume=2", "--width", "9"}), "; it was trained with --width 8\n"},
      {with({"--resume=2", "--width", "8", "--seed", "5"}), "--seed 1"},
      {with({"--resume=3", "--width", "8"}), "steps 2, 4"},
      {with({"--resume=x", "--width", "8"}), "neither the number of a step nor auto"},
      {{"linear", "--checkpoint", saved, "--resume=2"}, "of the recipe mlp, not linear"},
  });
  for (const auto& entry : std::filesystem::directory_iterator(saved)) {
    const std::string model = entry.path().string() + "/model.safetensors";
    std::string bytes = contents_of(model);
    bytes.back() ^= 1;
    write_file(model, bytes);
  }
  expect({{with({"--resume=2", "--width", "8"}), "model.safetensors"},
          {with({"--resume", "--width", "8"}), "model.safetensors"}});
}

}  // namespace
}  // namespace tally::process
