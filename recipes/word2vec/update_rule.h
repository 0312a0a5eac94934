#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::word2vec {

// Where rows live and how workers' updates meet: what a plan says to word2vec. The workers of one
// host always share one pair of tables and never wait for each other; the rule is for what lies
// between hosts, or between workers and servers.
struct UpdateRule {
  enum class Kind : std::uint8_t {
    kAverage,  // home=group: hosts average their tables about every `period`
    kLocal,    // home=group: hosts average their tables after every `words` words of a worker
    kAsp,      // home=server: rows are fetched and sent as each worker goes on
    kSsp,      // home=server: no worker is more than `bound` chunks ahead of the slowest
  };
  Kind kind = Kind::kAverage;
  Duration period = std::chrono::milliseconds(500);
  std::uint64_t words = 0;
  std::uint64_t bound = 0;

  bool uses_servers() const { return kind == Kind::kAsp || kind == Kind::kSsp; }
  friend bool operator==(const UpdateRule&, const UpdateRule&) = default;
};

// What a plan says: "update=average:500" (milliseconds; so without any), "update=local:100000"
// (words), "home=server update=asp", "home=server update=ssp:4". kInvalid for other plans, with
// what there is.
Result<UpdateRule> parse_update_rule(std::string_view plan);

// "home=group update=average:500".
std::string to_string(const UpdateRule& rule);

}  // namespace tally::word2vec
