#pragma once
#include <memory>

#include "group/reporter.h"
#include "tally/job.h"

namespace tally::collective {

// A job over Tally's own transports, for another engine that contains it.
class MemberJob : public Job {
 public:
  // This rank until reform(), for a Reporter of the caller.
  virtual std::shared_ptr<group::Watched> watched() const = 0;
};

// As Job::join with Engine::kTally.
Result<std::unique_ptr<MemberJob>> join_group(const JobOptions& options);

}  // namespace tally::collective
