#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/recorder.h"
#include "collective/choose.h"
#include "collective/context.h"
#include "collective/external.h"
#include "collective/mailbox.h"
#include "collective/operation_queue.h"
#include "collective/progress_engine.h"
#include "collective/shared_area.h"
#include "collective/topology.h"
#include "tally/communicator.h"

namespace tally::collective {

// The Communicator over Tally's own transports.
class GroupCommunicator final : public Communicator, private OperationQueue::Runner {
 public:
  struct Options {
    std::string name = "world";
    std::uint32_t channel = 0;
    std::vector<Rank> members;  // the job's rank of each rank here
    Rank rank = 0;
    std::byte* area_memory = nullptr;  // of this host's members; null if this rank is alone there
    bool owns_area = false;            // this rank allocated it
  };

  // `context` is shared by all communicators of the job, so that each can outlive the others.
  GroupCommunicator(std::shared_ptr<Context> context, Options options);
  ~GroupCommunicator() override;

  Rank rank() const override { return options_.rank; }
  int size() const override { return static_cast<int>(options_.members.size()); }
  Result<void> run(const Request& request) override;
  Handle start(const Request& request) override;
  Result<SharedBuffer> allocate(std::size_t bytes) override;
  Result<std::vector<std::span<std::byte>>> share(const SharedBuffer& buffer, Deadline by) override;
  Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline by) override;
  void close() override;
  void abort(const Error& why) override;
  Traffic traffic() const override;
  std::string recent_operations() const override;

  // `make` begins all collectives but barriers. Before the first operation.
  void carry_out(MakeExternal make) { make_external_ = std::move(make); }

 private:
  // An operation in progress: its task, and how far the engine is with it.
  struct Active;

  std::optional<Error> failure() const;
  Result<void> admit(const Request& request);
  // Whether another engine carries the operation out.
  bool is_external(const Request& request) const;
  Result<Algorithm> algorithm_of(const Request& request) const;
  bool fits_slot(const Request& request, Algorithm algorithm) const;
  Result<void> run_by_slot(const Request& request, TimePoint now);
  Result<void> run_here(const Request& request);
  // Checks, numbers and records an operation and makes its task.
  Result<std::unique_ptr<Active>> make_active(const Request& request, Deadline by);
  Deadline deadline_of(const Request& request) const override;
  Result<std::unique_ptr<OperationQueue::Operation>> prepare(const Request& request,
                                                             Deadline by) override;
  void rest(OperationQueue& queue, const std::list<OperationQueue::Item>& running,
            int looks) override;
  void wake() override;
  Deadline diagnose(const std::list<OperationQueue::Item>& running) override;
  bool ready(const std::list<OperationQueue::Item>& running) const override;
  Result<std::byte*> share_area(const std::vector<Rank>& members, Rank rank, Deadline by);
  void release_old_areas();

  const std::shared_ptr<Context> context_;
  const Options options_;
  const Topology topology_;
  Placement placement_;
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<SharedArea> area_;
  Recorder recorder_;
  std::unique_ptr<ProgressEngine> engine_;
  Traffic traffic_;  // except `operations`; guarded by Router::mutex
  std::atomic<std::uint64_t> operations_{0};
  std::uint32_t sequence_ = 0;
  std::atomic<bool> closed_{false};
  MakeExternal make_external_;             // empty: no other engine
  std::unique_ptr<OperationQueue> queue_;  // made by the first start()
};

// The communicator of all ranks of the job. `area_memory` is shared by the ranks of this host; null
// if this rank is alone there.
std::unique_ptr<GroupCommunicator> make_world(std::shared_ptr<Context> context,
                                              std::byte* area_memory);

}  // namespace tally::collective
