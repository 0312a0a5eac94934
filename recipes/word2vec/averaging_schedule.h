#pragma once
#include <cstdint>

#include "recipes/word2vec/update_rule.h"

namespace tally::word2vec {

// Decides when hosts average: at the same shares of the way for all workers of a lane (one of each
// host), whatever number of words each has, so that all take part in the same rounds. Everything it
// is given is the same on all of them. Pure.
class AveragingSchedule final {
 public:
  // `longest`: the most words that a worker of the lane trains in all.
  AveragingSchedule(const UpdateRule& rule, std::uint64_t longest);

  // The share of a worker's own words after which the next round is; 1 for the last one.
  double next() const { return next_; }
  bool is_over() const { return is_over_; }
  // A round has been held, `seconds` after the one before by the mean of all.
  void advance(double seconds);

 private:
  UpdateRule rule_;
  double before_ = 0;
  double next_ = 0;
  bool is_over_ = false;
};

}  // namespace tally::word2vec
