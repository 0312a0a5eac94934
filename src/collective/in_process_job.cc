#include <numeric>

#include "base/errors.h"
#include "collective/communicator.h"
#include "net/shm_transport.h"
#include "tally/job.h"

namespace tally::collective {
namespace {

// A rank that is a thread of a process which holds all ranks.
class InProcessJob final : public Job {
 public:
  InProcessJob(std::shared_ptr<Context> context, std::byte* area_memory)
      : context_(std::move(context)), world_(make_world(context_, area_memory)) {}
  ~InProcessJob() override { close(); }

  Rank rank() const override { return context_->rank; }
  int size() const override { return world_->size(); }
  int local_rank() const override { return rank(); }
  int local_size() const override { return size(); }
  std::uint32_t generation() const override { return 1; }
  Communicator& world() override { return *world_; }

  Result<void> reform(const std::vector<Rank>&, Deadline) override {
    return invalid("ranks inside one process live and die together: make a new job");
  }

  // There is no coordinator.
  void count_step(std::uint64_t) override {}
  void set_step(std::uint64_t) override {}
  void set_figure(std::string_view, double) override {}
  void record_phase(std::string_view, TimePoint, TimePoint) override {}

  void close() override {
    if (closed_) return;
    closed_ = true;
    world_->close();
    MutexLock lock(context_->router->mutex);
    context_->left = true;
    context_->transport->close();
  }

 private:
  const std::shared_ptr<Context> context_;
  const std::unique_ptr<GroupCommunicator> world_;
  bool closed_ = false;
};

}  // namespace

}  // namespace tally::collective

namespace tally {

Result<std::vector<std::unique_ptr<Job>>> Job::in_process(int size) {
  using namespace collective;
  if (size < 1) return invalid("a job has at least one rank");
  TALLY_TRY(auto segment, net::Segment::in_process({.members = size}));
  TALLY_TRY(std::byte* const area, segment->allocate(0, SharedArea::bytes_for(size)));
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<std::unique_ptr<Job>> jobs;
  for (Rank rank = 0; rank < size; ++rank) {
    auto context = std::make_shared<Context>();
    context->clock = std::make_unique<SteadyClock>();
    context->transport = std::make_unique<net::ShmTransport>(
        segment,
        net::ShmTransport::Options{
            .rank = rank, .size = size, .members = ranks, .generation = 1, .processes = {}},
        *context->clock);
    context->router = std::make_unique<net::Router>(*context->transport, *context->clock);
    context->segment = segment;
    context->rank = rank;
    context->host_of.assign(static_cast<std::size_t>(size), 0);
    context->in_host = ranks;
    context->spins = usable_cores() >= size ? kSpins : 0;
    jobs.push_back(std::make_unique<InProcessJob>(std::move(context), area));
  }
  return jobs;
}

}  // namespace tally
