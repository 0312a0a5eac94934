#pragma once
#include <optional>
#include <string>

#include "tally/deadline.h"

namespace tally::group {

// Limits the log lines about refused connections: the first few are logged each, further ones are
// counted and summed up in one sentence from time to time, so that a port scan does not flood the
// log. Pure: the caller does the logging.
class Refusals {
 public:
  // "a connection from 10.0.0.7:4711 was refused: it does not speak TLS", or nothing now.
  std::optional<std::string> add(const std::string& from, const std::string& why, TimePoint now);
  // The summary of refusals that add() has not returned, when it is due.
  std::optional<std::string> tick(TimePoint now);

 private:
  int allowance_ = kBurst;
  int unsaid_ = 0;
  std::string last_;
  TimePoint refilled_{};

  static constexpr int kBurst = 3;
};

}  // namespace tally::group
