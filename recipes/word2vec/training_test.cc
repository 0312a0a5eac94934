#include "recipes/word2vec/training.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "collective/test_jobs.h"

namespace tally::word2vec {
namespace {

using collective::Network;
using collective::run_ranks;

// Sentences about one of two topics, each of twenty words that never meet the other's.
std::string two_topics(std::size_t sentences) {
  Rng rng(77);
  std::string text;
  for (std::size_t s = 0; s < sentences; ++s) {
    const char topic = rng.below(2) == 0 ? 'a' : 'b';
    for (int w = 0; w < 12; ++w)
      text += fmt::format("{}{} ", topic, static_cast<char>('a' + rng.below(20)));
    text.back() = '\n';
  }
  return text;
}

Settings small_settings() {
  Settings settings;
  settings.dimension = 20;
  settings.sample = 0;
  settings.epochs = 6;
  settings.rate = 0.05;
  return settings;
}

struct Trained {
  std::vector<std::string> words;
  std::vector<float> values;
  TrainingResult result;
  double inside = 0, across = 0;  // mean cosines of words of one topic, and of both
};

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, left = 0, right = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    left += static_cast<double>(a[i]) * a[i];
    right += static_cast<double>(b[i]) * b[i];
  }
  return product / std::sqrt(left * right);
}

void compare_topics(const HostTables& tables, Trained& trained) {
  int insides = 0, acrosses = 0;
  for (WordId a = 0; a < trained.words.size(); ++a) {
    for (WordId b = 0; b < a; ++b) {
      const bool same = trained.words[a][0] == trained.words[b][0];
      (same ? trained.inside : trained.across) += cosine(tables.input(a), tables.input(b));
      ++(same ? insides : acrosses);
    }
  }
  trained.inside /= insides;
  trained.across /= acrosses;
}

// What rank 0 has at the end.
Trained train(Network network, int size, const std::string& text, const Settings& settings,
              const TrainingHooks& hooks = {}) {
  Trained trained;
  run_ranks(network, size, [&](Job& job) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    const auto vocabulary = Vocabulary::of_text(bytes, {.min_count = 1});
    ASSERT_TRUE(vocabulary.has_value());
    const auto own = vocabulary->encode(
        part_of(bytes, static_cast<std::size_t>(job.rank()), static_cast<std::size_t>(job.size())));
    auto training = Training::make(job, *vocabulary, own, settings);
    ASSERT_TRUE(training.has_value()) << training.error().message;
    const auto result = (*training)->run(hooks);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    if (job.rank() != 0) return;
    trained.words = vocabulary->words();
    const auto values = (*training)->tables().values();
    trained.values.assign(values.begin(), values.end());
    trained.result = *result;
    compare_topics((*training)->tables(), trained);
  });
  return trained;
}

TEST(Training, OneWorkerIsDeterministicBySeed) {
  const std::string text = two_topics(200);
  Settings settings = small_settings();
  const Trained first = train(Network::kInProcess, 1, text, settings);
  EXPECT_EQ(first.values, train(Network::kInProcess, 1, text, settings).values);
  settings.seed = 2;
  EXPECT_NE(first.values, train(Network::kInProcess, 1, text, settings).values);
}

TEST(Training, WordsOfATopicEndNearerThanOthers) {
  const std::string text = two_topics(3000);
  for (const int workers : {1, 2, 3}) {
    const Trained trained = train(Network::kInProcess, workers, text, small_settings());
    EXPECT_EQ(trained.result.words, 6U * 3000 * 12) << workers;
    EXPECT_FALSE(trained.result.interrupted);
    EXPECT_GT(trained.inside, trained.across + 0.5) << workers;
    // Six times log(2) is what knows nothing.
    EXPECT_LT(trained.result.loss, 6 * std::log(2.0)) << workers;
  }
}

TEST(Training, SeveralHostsAverageTheirTables) {
  const std::string text = two_topics(3000);
  Settings settings = small_settings();
  settings.rule = {.kind = UpdateRule::Kind::kLocal, .words = 3000};
  for (const Network network : {Network::kTwoHosts, Network::kUnevenHosts}) {
    const Trained trained = train(network, 4, text, settings);
    EXPECT_EQ(trained.result.words, 6U * 3000 * 12);
    EXPECT_GE(trained.result.rounds, 10U);
    EXPECT_GT(trained.inside, trained.across + 0.5);
  }
}

TEST(Training, AWorkerWithoutWordsTakesPart) {
  const Trained trained =
      train(Network::kTwoHosts, 4, "only one word one only\n", small_settings());
  EXPECT_EQ(trained.result.words, 30U);
}

TEST(Training, EndsSoonAfterItIsInterrupted) {
  const std::string text = two_topics(3000);
  Settings settings = small_settings();
  settings.epochs = 1000000;
  settings.rule = {.kind = UpdateRule::Kind::kLocal, .words = 3000};
  for (const Network network : {Network::kInProcess, Network::kTwoHosts}) {
    const Trained trained = train(network, 4, text, settings, {.interrupted = [] { return true; }});
    EXPECT_TRUE(trained.result.interrupted);
    EXPECT_LT(trained.result.words, 4U * 20000);
  }
}

TEST(RateAt, FallsInALineToATenThousandth) {
  EXPECT_FLOAT_EQ(rate_at(0.025, 0, 999), 0.025F);
  EXPECT_FLOAT_EQ(rate_at(0.025, 500, 999), 0.0125F);
  EXPECT_FLOAT_EQ(rate_at(0.025, 999999, 999999), 2.5e-6F);
  EXPECT_FLOAT_EQ(rate_at(0.025, 5000, 999), 2.5e-6F);
}

TEST(InitialRows, AreSmallAndOfSeedAndWordAlone) {
  std::vector<float> a(50), b(50);
  initialise_row(a, 7, 1);
  initialise_row(b, 7, 1);
  EXPECT_EQ(a, b);
  for (const float value : a) EXPECT_LE(std::fabs(value), 0.01F);
  initialise_row(b, 8, 1);
  EXPECT_NE(a, b);
  initialise_row(b, 7, 2);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace tally::word2vec
