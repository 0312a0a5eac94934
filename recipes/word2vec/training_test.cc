#include "recipes/word2vec/training.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/mutex.h"
#include "collective/test_jobs.h"

namespace tally::word2vec {
namespace {

using collective::Network;
using collective::run_ranks;

// Sentences about one of two topics. Each topic has twenty words of its own.
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
  double inside = 0, across = 0;  // mean cosine within a topic, and across topics
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

void compare_topics(const Training& training, Trained& trained) {
  int insides = 0, acrosses = 0;
  for (WordId a = 0; a < trained.words.size(); ++a) {
    for (WordId b = 0; b < a; ++b) {
      const bool same = trained.words[a][0] == trained.words[b][0];
      (same ? trained.inside : trained.across) += cosine(training.vector(a), training.vector(b));
      ++(same ? insides : acrosses);
    }
  }
  trained.inside /= insides;
  trained.across /= acrosses;
}

// Rows in memory that all ranks share under one mutex.
class LockedRows final : public RowService {
 public:
  explicit LockedRows(std::size_t dimension) : dimension_(dimension) {}

  Result<void> pull(Table table, std::span<const std::uint64_t> keys,
                    std::span<float> rows) override {
    const MutexLock lock(mutex_);
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const std::vector<float>& row = row_of(table, keys[k]);
      std::copy(row.begin(), row.end(), rows.begin() + static_cast<std::ptrdiff_t>(k * dimension_));
    }
    return {};
  }
  Result<void> add(Table table, std::span<const std::uint64_t> keys,
                   std::span<const float> rows) override {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < rows.size(); ++i)
      row_of(table, keys[i / dimension_])[i % dimension_] += rows[i];
    return {};
  }
  Result<void> tick() override { return {}; }
  Result<void> flush() override { return {}; }
  Result<void> finish() override { return {}; }

 private:
  std::vector<float>& row_of(Table table, std::uint64_t key) TALLY_REQUIRES(mutex_) {
    auto [found, is_new] = rows_.try_emplace({table, key}, dimension_, 0.0F);
    if (is_new && table == Table::kInputs)
      initialise_row(found->second, static_cast<WordId>(key), 1);
    return found->second;
  }

  const std::size_t dimension_;
  Mutex mutex_;
  std::map<std::pair<Table, std::uint64_t>, std::vector<float>> rows_ TALLY_GUARDED_BY(mutex_);
};

// Trains with `size` ranks and returns the result of rank 0.
Trained train(Network network, int size, const std::string& text, const Settings& settings,
              const TrainingHooks& hooks = {}, RowService* service = nullptr) {
  Trained trained;
  run_ranks(network, size, [&](Job& job) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    const auto vocabulary = Vocabulary::of_text(bytes, {.min_count = 1});
    ASSERT_TRUE(vocabulary.has_value());
    const auto own = vocabulary->encode(
        part_of(bytes, static_cast<std::size_t>(job.rank()), static_cast<std::size_t>(job.size())));
    auto training = Training::make(job, *vocabulary, own, settings, service);
    ASSERT_TRUE(training.has_value()) << training.error().message;
    const auto result = (*training)->run(hooks);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    if (job.rank() != 0) return;
    trained.words = vocabulary->words();
    ASSERT_TRUE((*training)->collect().has_value());
    for (WordId word = 0; word < trained.words.size(); ++word)
      for (const float value : (*training)->vector(word)) trained.values.push_back(value);
    trained.result = *result;
    compare_topics(**training, trained);
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
    // An untrained model has a loss of 6 * log(2).
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

// One worker with remote rows trains to the same vectors as one worker with local rows, given the
// same initial values.
TEST(Training, RowsThatLiveElsewhereAreTrainedAlike) {
  const std::string text = two_topics(200);
  Settings settings = small_settings();
  const Trained here = train(Network::kInProcess, 1, text, settings);
  settings.rule.kind = UpdateRule::Kind::kAsp;
  LockedRows elsewhere(settings.dimension);
  const Trained there = train(Network::kInProcess, 1, text, settings, {}, &elsewhere);
  ASSERT_EQ(here.values.size(), there.values.size());
  for (std::size_t i = 0; i < here.values.size(); ++i)
    EXPECT_NEAR(here.values[i], there.values[i], 1e-3) << i;
}

TEST(Training, SeveralWorkersTrainRowsThatLiveElsewhere) {
  const std::string text = two_topics(3000);
  Settings settings = small_settings();
  // Every chunk has every word. If the workers start a chunk from the same rows, their updates add
  // up: with half of the learning rate the sum of two is as large as the update of one. More
  // workers diverge when they run in step.
  settings.rate /= 2;
  settings.epochs *= 2;
  settings.rule.kind = UpdateRule::Kind::kAsp;
  for (const Network network : {Network::kInProcess, Network::kTwoHosts}) {
    LockedRows elsewhere(settings.dimension);
    const Trained trained = train(network, 2, text, settings, {}, &elsewhere);
    EXPECT_EQ(trained.result.words, settings.epochs * 3000 * 12);
    EXPECT_GT(trained.inside, trained.across + 0.5);
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
