#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/plan.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::word2vec {

// Storage of rows and combination of updates: the part of a plan that word2vec uses. The workers of
// one host always share one pair of tables and never wait for each other; the rule applies between
// hosts, or between workers and servers.
struct UpdateRule {
  // kAverage   home=group: hosts average their tables about every `period`
  // kLocal     home=group: hosts average their tables after every `words` words of a worker
  // kAsp       home=server: workers pull and push rows without waiting
  // kSsp       home=server: no worker is more than `bound` chunks ahead of the slowest
  using Kind = plan::Update;
  Kind kind = Kind::kAverage;
  Duration period = std::chrono::milliseconds(500);
  std::uint64_t words = 0;
  std::uint64_t bound = 0;

  bool uses_servers() const { return kind == Kind::kAsp || kind == Kind::kSsp; }
  friend bool operator==(const UpdateRule&, const UpdateRule&) = default;
};

// Parses "update=average:500" (milliseconds; the default), "update=local:100000" (words),
// "home=server update=asp", "home=server update=ssp:4". kInvalid for other plans, with the
// supported ones.
Result<UpdateRule> parse_update_rule(std::string_view plan);

// "home=group update=average:500".
std::string to_string(const UpdateRule& rule);

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
