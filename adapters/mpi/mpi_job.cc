#include "adapters/mpi/mpi_job.h"

#include <fmt/format.h>

#include <climits>

#include "adapters/mpi/host_ranks.h"
#include "adapters/mpi/mpi_communicator.h"
#include "adapters/mpi/polling.h"
#include "adapters/mpi/tiered_communicator.h"
#include "base/log.h"
#include "base/signal_dump.h"

namespace tally::mpi {
namespace {

// Smaller all-reduces over several hosts go by MPI alone: bench/allreduce/README.md has the measurement.
constexpr std::size_t kTieredBytes = std::size_t{64} << 10;

class MpiJob final : public Job {
 public:
  explicit MpiJob(const JobOptions& options) : options_(options) {}
  ~MpiJob() override { close(); }

  Result<void> join();

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return options_.local_rank.value_or(hosts_.index_at(rank_)); }
  int local_size() const override { return hosts_.size_at(rank_); }
  std::uint32_t generation() const override { return 1; }
  Communicator& world() override { return *world_; }

  Result<void> reform(const std::vector<Rank>&, Deadline) override {
    return Error{.code = ErrorCode::kInvalid,
                 .message = "engine=mpi cannot form a new group: a lost rank ends an MPI job"};
  }

  // Nobody watches a job of MPI's.
  void count_step(std::uint64_t /*samples*/) override {}

  void close() override {
    dump_.reset();
    if (world_) world_->close();
    if (inside_) inside_->close();
    if (all_) all_->close();
  }

 private:
  Result<void> check_ranks() const;
  Result<void> share_memory(Deadline by);
  Result<void> choose_world(Deadline by);

  const JobOptions options_;
  Rank rank_ = 0;
  int size_ = 1;
  std::shared_ptr<MpiContext> context_;
  Hosts hosts_;
  std::shared_ptr<Communicator> all_;    // every rank, by MPI alone
  std::shared_ptr<Job> inside_;          // the ranks of this host; null: not used
  std::shared_ptr<Communicator> world_;  // one of these, or made of both
  std::unique_ptr<SignalDump> dump_;
};

// A launcher that is not MPI's starts ranks that MPI takes for jobs of one.
Result<void> MpiJob::check_ranks() const {
  if (options_.size == 1 || (options_.size == size_ && options_.rank == rank_)) return {};
  return Error{
      .code = ErrorCode::kInvalid,
      .message = fmt::format("this is rank {} of {}, but MPI has it as rank {} of {}: with "
                             "engine=mpi, start it by that MPI's mpirun or by srun",
                             options_.rank, options_.size, rank_, size_)};
}

Result<void> MpiJob::join() {
  const Deadline by = Deadline::after(options_.join_timeout);
  context_ = std::make_shared<MpiContext>();
  TALLY_TRY(context_->process, MpiProcess::start());
  {
    const auto entry = context_->process->enter();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    TALLY_TRY(check_ranks());
    TALLY_TRY(context_->ops.make());
  }
  context_->operation_timeout = options_.operation_timeout;
  context_->most_elements = INT_MAX;
  TALLY_TRY(all_, MpiCommunicator::world(context_, by));
  TALLY_TRY(hosts_, find_hosts(*all_, options_.host_label, by));
  context_->spins = spins_for(hosts_.on_this_machine, hosts_.cores);
  TALLY_TRY(choose_world(by));
  if (options_.dump_on_sigquit)
    dump_ =
        std::make_unique<SignalDump>([world = world_.get()] { return world->recent_operations(); });
  return {};
}

Result<void> MpiJob::choose_world(Deadline by) {
  world_ = all_;
  if (options_.mpi_inside == MpiInside::kMpi || hosts_.all_alone()) return {};
  TALLY_TRY(share_memory(by));
  if (inside_ == nullptr) return {};
  // The alias keeps the job for as long as somebody has its world.
  const std::shared_ptr<Communicator> inside(inside_, &inside_->world());
  if (hosts_.one_host()) {
    world_ = inside;
    return {};
  }
  TALLY_TRY(world_, TieredCommunicator::make(all_, inside,
                                             {.operation_timeout = options_.operation_timeout,
                                              .least_bytes = kTieredBytes,
                                              .threads = context_->process->threads()},
                                             by));
  return {};
}

// All ranks of the job share memory inside their hosts, or none.
Result<void> MpiJob::share_memory(Deadline by) {
  const Rank first = hosts_.first_of[static_cast<std::size_t>(rank_)];
  TALLY_TRY(const auto host, all_->split(first, rank_, by));
  JobOptions options = options_;
  options.dump_on_sigquit = false;
  auto inside = join_inside(*host, options, by);
  std::int32_t joined = inside.has_value() ? 1 : 0;
  TALLY_TRY(all_->allreduce(std::span<std::int32_t>(&joined, 1), ReduceOp::kMin, {.by = by}));
  if (joined == 1) {
    inside_ = *std::move(inside);
    return {};
  }
  const Error error = inside.has_value() ? Error{.code = ErrorCode::kSystem,
                                                 .message = "ranks of another host share no memory"}
                                         : inside.error();
  if (options_.mpi_inside == MpiInside::kShm) return error;
  log_warning(fmt::format("rank {}: MPI also inside hosts, since memory could not be shared: {}",
                          rank_, to_string(error)));
  return {};
}

}  // namespace

Result<std::unique_ptr<Job>> join(const JobOptions& options) {
  auto job = std::make_unique<MpiJob>(options);
  TALLY_TRY(job->join());
  return std::unique_ptr<Job>(std::move(job));
}

}  // namespace tally::mpi
