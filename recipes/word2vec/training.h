#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exchange/group/tiers.h"
#include "recipes/word2vec/chunk.h"
#include "recipes/word2vec/host_average.h"
#include "recipes/word2vec/host_tables.h"
#include "recipes/word2vec/remote_rows.h"
#include "recipes/word2vec/sgns.h"
#include "recipes/word2vec/vocabulary.h"
#include "tally/job.h"

namespace tally::word2vec {

struct Settings {
  std::size_t dimension = 100;
  int window = 5;
  int negatives = 5;
  double sample = 1e-4;
  std::uint64_t min_count = 5;
  std::uint64_t epochs = 5;
  double rate = 0.025;
  std::uint64_t seed = 1;
  Words words = Words::kLower;
  UpdateRule rule;
};

// Progress of a training as seen by one worker: that of its host, with all hosts assumed to be
// equally fast.
struct Standing {
  std::uint64_t words = 0;  // completed
  std::uint64_t total = 0;  // of all passes and workers
  double words_per_s = 0;   // since the previous report
  double loss = 0;          // per pair of words and its negatives, since the previous report
  double rate = 0;
  Duration elapsed{};
};

struct TrainingHooks {
  // Whether this worker should stop. Called often.
  std::function<bool()> interrupted = [] { return false; };
  // Called about twice a second.
  std::function<void(const Standing&)> show = [](const Standing&) {};
};

struct TrainingResult {
  std::uint64_t words = 0;   // trained by all workers
  Duration elapsed{};        // from the start of training on all workers to its end
  double loss = 0;           // over the last tenth
  std::uint64_t rounds = 0;  // of averaging between hosts
  bool interrupted = false;
};

// The training of one worker. Deterministic by seed with one worker; several share their rows
// without locks. Threads: one.
class Training final {
 public:
  // Called by all ranks, with the same vocabulary and settings. The caller owns `text`, the
  // worker's own part, the vocabulary and the service. kInvalid if the rule uses servers and there
  // is no service.
  static Result<std::unique_ptr<Training>> make(Job& job, const Vocabulary& vocabulary,
                                                std::span<const WordId> text,
                                                const Settings& settings,
                                                RowService* service = nullptr);

  // Called once, by all ranks. All workers have finished when it returns.
  Result<TrainingResult> run(const TrainingHooks& hooks);

  // After run(): copies the trained vectors to this rank.
  Result<void> collect();
  // After collect(); the same on all hosts.
  std::span<const float> vector(WordId word) const {
    if (service_ == nullptr) return tables_->input(word);
    return {collected_.data() + word * settings_.dimension, settings_.dimension};
  }

 private:
  Training(Job& job, const Settings& settings, const Vocabulary& vocabulary,
           std::span<const WordId> text, RowService* service);
  Result<void> connect();
  Result<void> train_all(const TrainingHooks& hooks);
  Result<bool> train_chunk(const TrainingHooks& hooks);
  void show(const TrainingHooks& hooks, float rate);

  Job& job_;
  const Settings settings_;
  const NegativeSampler negatives_;
  const std::vector<double> keep_;
  ChunkSource source_;
  const std::size_t row_count_;
  RowService* const service_;                // null: rows are in the tables
  std::unique_ptr<RemoteRows> remote_rows_;  // with a service
  std::vector<float> collected_;
  exchange::Tiers tiers_;
  std::unique_ptr<HostTables> tables_;  // with a service: progress only, no rows
  std::optional<HostAverage> average_;  // with several hosts
  std::uint64_t host_total_ = 0;        // words of all passes, of the workers of this host
  std::uint64_t world_total_ = 0;
  Sgns sgns_;
  Chunk chunk_;
  std::uint64_t done_ = 0;  // words of this worker
  TimePoint begin_{};
  TimePoint shown_{};
  HostProgress shown_progress_;
  HostProgress late_progress_;  // after nine tenths
};

}  // namespace tally::word2vec
