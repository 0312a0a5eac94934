#pragma once
#include <memory>

#include "group/reporter.h"
#include "tally/job.h"

namespace tally::collective {

// A job of ours, for another engine that it is a part of.
class MemberJob : public Job {
 public:
  // This rank as it is until reform(), for a Reporter of the caller's.
  virtual std::shared_ptr<group::Watched> watched() const = 0;
};

// As Job::join with Engine::kTally.
Result<std::unique_ptr<MemberJob>> join_group(const JobOptions& options);

}  // namespace tally::collective
