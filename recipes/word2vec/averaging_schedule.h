#pragma once
#include <cstdint>

#include "recipes/word2vec/update_rule.h"

namespace tally::word2vec {

// Decides when hosts average: at the same shares of the text for all workers of a lane (one of each
// host), for any number of words of each, so that all take part in the same rounds. All inputs are
// the same on all of them. Pure.
class AveragingSchedule final {
 public:
  // `longest`: the largest number of words of a worker of the lane.
  AveragingSchedule(const UpdateRule& rule, std::uint64_t longest);

  // Returns the share of a worker's own words after which the next round is due; 1 for the last
  // one.
  double next() const { return next_; }
  bool is_over() const { return is_over_; }
  // A round has been held, `seconds` after the previous one in the mean of all workers.
  void advance(double seconds);

 private:
  UpdateRule rule_;
  double before_ = 0;
  double next_ = 0;
  bool is_over_ = false;
};

}  // namespace tally::word2vec
