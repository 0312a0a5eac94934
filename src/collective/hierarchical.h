#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "collective/mailbox.h"
#include "collective/shared_area.h"
#include "collective/task.h"

namespace tally::collective {

// Runs tasks one after the other: each is made when the previous one is complete; a null task is
// skipped.
class ChainTask final : public Task {
 public:
  using Stage = std::function<std::unique_ptr<Task>()>;
  explicit ChainTask(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  Result<Progress> advance() override;
  bool ready() const override { return current_ == nullptr || current_->ready(); }
  std::vector<Rank> awaited() const override;
  void cancel() override;

 private:
  std::vector<Stage> stages_;
  std::size_t next_ = 0;
  std::unique_ptr<Task> current_;
};

// The ranks of a communicator by host, in order.
using Hosts = std::vector<std::vector<Rank>>;

// All-reduce over several hosts that have several ranks each: inside a host every lane's rank
// reduces its slice directly, the same lanes of all hosts all-reduce their slice by messages, and
// inside the host the slices are spread again. There are as many lanes as the smallest host has
// ranks. `area` is this host's, or null if it has one rank. A slice crosses between hosts once per
// host and direction.
std::unique_ptr<Task> hierarchical_allreduce(SharedArea* area, Mailbox& mailbox, const Hosts& hosts,
                                             Rank rank, const Request& request,
                                             std::uint32_t sequence,
                                             const wire::Signature& signature, Traffic& traffic);

}  // namespace tally::collective
