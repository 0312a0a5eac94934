#pragma once
#include <cstdint>
#include <vector>

#include "recipes/word2vec/host_tables.h"
#include "recipes/word2vec/update_rule.h"
#include "tally/communicator.h"

namespace tally::word2vec {

// Averages the tables of several hosts at intervals. Each worker averages a part of the rows with
// the workers of the same number on the other hosts, weighted by the words that each host has
// trained since. The other workers of the host continue meanwhile: their updates during a round are
// kept. Threads: one.
class HostAverage final {
 public:
  // `lane` has one rank of each host. `own_words`: all words of this worker. The caller owns both
  // objects.
  HostAverage(Communicator& lane, HostTables& tables, const collective::Topology& topology,
              const AveragingSchedule& schedule, std::uint64_t own_words);

  // Holds the rounds that are due when this worker has trained `done` words. True if the training
  // ends, because a worker of the lane wants to stop or the last round was held.
  Result<bool> advance(std::uint64_t done, bool wants_to_stop);
  std::uint64_t rounds() const { return rounds_; }

 private:
  Result<bool> hold_round(bool wants_to_stop);
  Result<void> average(std::span<float> part, double weight);

  Communicator& lane_;
  HostTables& tables_;
  AveragingSchedule schedule_;
  std::uint64_t own_words_;
  std::size_t first_row_ = 0, last_row_ = 0;
  std::uint64_t words_before_ = 0;  // of the host, at the last round
  TimePoint last_round_{};
  std::uint64_t rounds_ = 0;
  std::vector<float> before_, sum_;
};

// values += sum - before, element by element, while others write the values: their updates are
// kept. See kernel/skipgram/skipgram.h about such races.
void add_difference(std::span<float> values, std::span<const float> sum,
                    std::span<const float> before);

}  // namespace tally::word2vec
