#pragma once
#include <optional>
#include <string>

#include "tally/deadline.h"

namespace tally::group {

// What is said of connections that are turned away: each of a few, and of many no more than one
// sentence in a while, so that a port scan does not flood the log. Decides only.
class Refusals {
 public:
  // "a connection from 10.0.0.7:4711 was refused: it does not speak TLS", or nothing now.
  std::optional<std::string> add(const std::string& from, const std::string& why, TimePoint now);
  // What add() kept to itself, when it is time to say it.
  std::optional<std::string> tick(TimePoint now);

 private:
  int allowance_ = kBurst;
  int unsaid_ = 0;
  std::string last_;
  TimePoint refilled_{};

  static constexpr int kBurst = 3;
};

}  // namespace tally::group
