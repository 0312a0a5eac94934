// `tally train word2vec` and `tally eval` as users run them, on a text of two topics.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "process/child.h"
#include "process/folder.h"
#include "process/processes.h"

namespace tally::process {
namespace {

using testing::HasSubstr;

// The directory of this launcher's workers, by TALLY_DIRECTORY; empty if there are no workers.
std::string directory_of(pid_t launcher) {
  const std::string job = fmt::format("train-word2vec-{}", launcher);
  for (const pid_t pid : all_processes())
    if (variable_of(pid, "TALLY_JOB") == job)
      if (const auto directory = variable_of(pid, "TALLY_DIRECTORY")) return *directory;
  return "";
}

// A folder with a text whose sentences each have the words of one of two topics.
class Word2vec : public testing::Test {
 protected:
  Word2vec() {
    Rng rng(5);
    std::ofstream text(file("text.txt"));
    for (int sentence = 0; sentence < 4000; ++sentence) {
      const char topic = rng.below(2) == 0 ? 'a' : 'b';
      for (int word = 0; word < 12; ++word)
        text << fmt::format("{}{} ", topic, static_cast<char>('a' + rng.below(20)));
      text << "\n";
    }
  }

  std::string file(const std::string& name) const { return folder_.file(name); }

  static Child tally(std::vector<std::string> words) {
    words.insert(words.begin(), TALLY_PROGRAM);
    return Child({.command = std::move(words)});
  }
  Child train(std::vector<std::string> words, const std::string& rate = "0.05") const {
    words.insert(words.begin(), {"train", "word2vec", "--data", file("text.txt"), "--dimension",
                                 "20", "--sample", "0", "--rate", rate});
    return tally(std::move(words));
  }

  void expect_topics_together(const std::string& vectors) const {
    // Pairs of one topic are similar, pairs of two topics are not: the ranks agree except for ties.
    std::ofstream pairs(file("pairs.txt"));
    for (char a = 'a'; a < 'a' + 20; ++a)
      for (char b = 'a'; b < a; ++b)
        pairs << fmt::format("a{0} a{1} 9\nb{0} b{1} 9\na{0} b{1} 1\n", a, b);
    pairs.close();
    Child similarity =
        tally({"eval", "similarity", "--vectors", vectors, "--pairs", file("pairs.txt")});
    ASSERT_TRUE(similarity.exits(0)) << similarity.transcript();
    EXPECT_THAT(similarity.output(), HasSubstr("570/570 pairs found"));
    double correlation = 0;
    ASSERT_EQ(std::sscanf(similarity.output().c_str(), "rank correlation %lf", &correlation), 1);
    // If all pairs of one topic, two thirds, come before the others, the correlation is
    // sqrt(3 * 2/3 * 1/3) = 0.816; random vectors have 0.
    EXPECT_GT(correlation, 0.6) << similarity.output();
  }

 private:
  const Folder folder_;
};

TEST_F(Word2vec, TwoWorkersBringWordsOfATopicTogether) {
  Child training = train(
      {"--workers", "2", "--epochs", "6", "--output", file("v.bin"), "--json", file("out.jsonl")});
  ASSERT_TRUE(training.exits(0)) << training.transcript();
  EXPECT_THAT(training.output(), HasSubstr("40 different words, 48000 in the text"));
  EXPECT_THAT(contents_of(file("out.jsonl")), HasSubstr("\"workers\":2"));

  expect_topics_together(file("v.bin"));

  std::ofstream(file("questions.txt")) << ": gram-made\naa ab ba bb\nzz ab ba bb\n";
  Child analogy =
      tally({"eval", "analogy", "--vectors", file("v.bin"), "--questions", file("questions.txt")});
  ASSERT_TRUE(analogy.exits(0)) << analogy.transcript();
  EXPECT_THAT(analogy.output(), HasSubstr("/1\n1 questions have a word without a vector"));
}

// Every chunk of this text changes all 40 rows, and servers add the differences of workers that
// started from the same rows. How many do depends on the load of the machine: the learning rate is
// low enough for three of them.
TEST_F(Word2vec, RowsMayLiveWithServers) {
  for (const std::string plan : {"home=server update=asp", "home=server update=ssp:2"}) {
    Child training = train({"--workers", "3", "--servers", "2", "--plan", plan, "--epochs", "6",
                            "--output", file("v.txt"), "--json", file("out.jsonl")},
                           "0.01");
    ASSERT_TRUE(training.exits(0)) << training.transcript();
    EXPECT_THAT(training.output(), HasSubstr(plan));
    EXPECT_EQ(training.errors(), "");
    EXPECT_THAT(contents_of(file("v.txt")), testing::StartsWith("40 20\n"));
    EXPECT_THAT(contents_of(file("out.jsonl")), HasSubstr("\"words\":288000"));
    expect_topics_together(file("v.txt"));
  }
}

TEST_F(Word2vec, ItsServersRefuseClientsWithoutTheJobsSecret) {
  Child training = train({"--workers", "1", "--servers", "1", "--plan", "home=server update=asp",
                          "--epochs", "1000000"});
  ASSERT_TRUE(training.line_with("1 workers").has_value()) << training.transcript();
  const std::string directory = directory_of(training.pid());
  ASSERT_NE(directory, "");
  const std::vector<std::string> there = {
      "--workers", "1", "--plan", "home=server update=asp", "--directory", directory};
  Child stranger = train(there);
  EXPECT_TRUE(training.complains("does not speak TLS")) << training.transcript();
  EXPECT_EQ(stranger.output().find("1 workers"), std::string::npos) << stranger.transcript();
  training.signal(SIGINT);
  EXPECT_TRUE(training.exits(130)) << training.transcript();
}

TEST_F(Word2vec, FindsServersThatStandAloneByTheirSecret) {
  write_file(file("secret"), std::string(32, 's'));
  std::filesystem::permissions(file("secret"), std::filesystem::perms::owner_read);
  Child directory =
      tally({"serve", "--directory", "--servers", "1", "--secret-file", file("secret")});
  const auto line = directory.line_with("directory at ");
  ASSERT_TRUE(line.has_value()) << directory.transcript();
  const std::size_t at = line->find("directory at ") + 13;
  const std::string address = line->substr(at, line->find(',') - at);
  const Child server =
      tally({"serve", "--server", "--directory-at", address, "--secret-file", file("secret")});
  Child training =
      train({"--workers", "2", "--plan", "home=server update=asp", "--directory", address,
             "--server-secret", file("secret"), "--epochs", "1", "--output", file("v.txt")});
  EXPECT_TRUE(training.exits(0)) << training.transcript();
  EXPECT_THAT(contents_of(file("v.txt")), testing::StartsWith("40 20\n"));
}

TEST_F(Word2vec, JoinsTheJobOfALauncher) {
  Child training = tally({"run", "-n", "3", "--", TALLY_PROGRAM, "train", "word2vec", "--data",
                          file("text.txt"), "--epochs", "1", "--output", file("v.txt")});
  ASSERT_TRUE(training.exits(0)) << training.transcript();
  EXPECT_THAT(training.output(), HasSubstr("3 workers, 1 epochs"));
  EXPECT_THAT(contents_of(file("v.txt")), testing::StartsWith("40 100\n"));
}

TEST_F(Word2vec, AnInterruptWritesTheVectorsAsTheyAre) {
  Child training = train({"--workers", "2", "--epochs", "1000000", "--output", file("v.txt")});
  ASSERT_TRUE(training.line_with("2 workers").has_value()) << training.transcript();
  training.signal(SIGINT);
  EXPECT_TRUE(training.exits(130)) << training.transcript();
  EXPECT_THAT(training.output(), HasSubstr("interrupted after"));
  EXPECT_THAT(contents_of(file("v.txt")), testing::StartsWith("40 20\n"));
}

TEST_F(Word2vec, RefusesWrongOptionsBeforeItStartsAnything) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--plan", "update=bsp"}, "average:MS"},
      {{"--servers", "2"}, "home=server"},
      {{"--server-secret", file("text.txt")}, "--directory"},
      {{"--plan", "home=server update=asp", "--directory", "127.0.0.1:1", "--server-secret",
        file("none")},
       "--server-secret: "},
      {{"--output", file("v.npy")}, ".bin (binary)"},
      {{"--output", file("none/v.bin")}, "there is no folder"},
      {{"--window", "0"}, "--window"},
      {{"--rate", "-1"}, "--rate -1: need more than 0"}};
  for (const auto& [words, message] : cases) {
    Child training = train(words);
    EXPECT_TRUE(training.exits(2)) << training.transcript();
    EXPECT_THAT(training.errors(), HasSubstr(message));
  }
  Child nowhere = tally({"train", "word2vec", "--data", file("nothing.txt")});
  EXPECT_TRUE(nowhere.exits(2));
  EXPECT_THAT(nowhere.errors(), HasSubstr("no file or folder"));
}

TEST_F(Word2vec, ATextWithoutFrequentWordsIsAnErrorOfOneLine) {
  Child training = train({"--workers", "1", "--min-count", "100000"});
  EXPECT_TRUE(training.exits(1)) << training.transcript();
  EXPECT_THAT(training.errors(), HasSubstr("no word is there 100000 times"));
}

TEST_F(Word2vec, StandsInTheListOfRecipes) {
  Child list = tally({"train", "--list"});
  ASSERT_TRUE(list.wait_status().has_value());
  EXPECT_THAT(list.output(), HasSubstr("tally train word2vec"));
}

TEST_F(Word2vec, EvalRefusesAFileWithoutVectors) {
  Child eval =
      tally({"eval", "similarity", "--vectors", file("text.txt"), "--pairs", file("text.txt")});
  EXPECT_TRUE(eval.exits(1));
  EXPECT_THAT(eval.errors(), HasSubstr("line 1: expected two words and a number"));
}

}  // namespace
}  // namespace tally::process
