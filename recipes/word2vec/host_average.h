#pragma once
#include <cstdint>
#include <vector>

#include "recipes/word2vec/host_tables.h"
#include "recipes/word2vec/round_course.h"
#include "tally/communicator.h"

namespace tally::word2vec {

// Averages the tables of several hosts now and then. Each worker has a part of the rows, which it
// averages with the workers of the same number on the other hosts, weighted by the words that each
// host has trained since. The others of the host go on meanwhile: what they add to the part during
// a round is kept. Threads: one.
class HostAverage final {
 public:
  // Called by all ranks; `lane` has one of each host. `own_words`: what this worker will train in
  // all. Neither object is owned.
  static Result<HostAverage> make(Communicator& lane, HostTables& tables, const train::Tiers& tiers,
                                  const UpdateRule& rule, std::uint64_t own_words);

  // Holds the rounds that are due when this worker has trained `done` words. True if the training
  // is to end, because a worker of the lane wants that or because the last round was held.
  Result<bool> advance(std::uint64_t done, bool wants_to_stop);
  std::uint64_t rounds() const { return rounds_; }

 private:
  HostAverage(Communicator& lane, HostTables& tables, const train::Tiers& tiers,
              const RoundCourse& course, std::uint64_t own_words);
  Result<bool> hold_round(bool wants_to_stop);
  Result<void> average(std::span<float> part, double weight);

  Communicator* lane_;
  HostTables* tables_;
  RoundCourse course_;
  std::uint64_t own_words_;
  std::size_t first_row_ = 0, last_row_ = 0;
  std::uint64_t words_before_ = 0;  // of the host, at the last round
  TimePoint last_round_{};
  std::uint64_t rounds_ = 0;
  std::vector<float> before_, sum_;
};

// values += sum - before, element by element, while others write the values: what they add in
// between stays. See kernel/skipgram/skipgram.h for what that means.
void add_difference(std::span<float> values, std::span<const float> sum,
                    std::span<const float> before);

}  // namespace tally::word2vec
