#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::word2vec {

// Storage of rows and combination of updates: the part of a plan that word2vec uses. The workers of
// one host always share one pair of tables and never wait for each other; the rule applies between
// hosts, or between workers and servers.
struct UpdateRule {
  enum class Kind : std::uint8_t {
    kAverage,  // home=group: hosts average their tables about every `period`
    kLocal,    // home=group: hosts average their tables after every `words` words of a worker
    kAsp,      // home=server: workers pull and push rows without waiting
    kSsp,      // home=server: no worker is more than `bound` chunks ahead of the slowest
  };
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

}  // namespace tally::word2vec
