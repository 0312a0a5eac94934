#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "server/protocol/message.h"
#include "server/protocol/view.h"

namespace tally::server {

// Snapshots and restores that workers have asked a server for, by sequence: what makes each happen
// once, however often it is sent. Threads: safe.
class JobBook final {
 public:
  // Of each worker so many are remembered.
  static constexpr std::size_t kMaxJobs = 64;

  struct Answer {
    Outcome outcome = Outcome::kDone;
    std::vector<std::byte> payload;
  };
  struct Standing {
    bool is_new = false;           // now under way
    std::optional<Answer> answer;  // it is over
  };
  Standing ask(NodeId worker, std::uint64_t sequence);
  void finish(NodeId worker, std::uint64_t sequence, const Answer& answer);
  // Who is gone asks no more.
  void keep_only(const std::vector<WorkerInfo>& workers);

 private:
  struct Jobs {
    std::uint64_t newest = 0;
    std::map<std::uint64_t, std::optional<Answer>> known;  // none: under way
  };
  Mutex mutex_;
  std::map<NodeId, Jobs> workers_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::server
