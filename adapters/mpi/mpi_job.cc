#include <fmt/format.h>

#include <climits>

#include "adapters/mpi/host_ranks.h"
#include "adapters/mpi/mpi_communicator.h"
#include "adapters/mpi/polling.h"
#include "adapters/mpi/tiered_communicator.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/signal_dump.h"
#include "base/stack_capture.h"
#include "collective/engine_plugin.h"
#include "collective/watched_rank.h"
#include "tally/job.h"

namespace tally::mpi {
namespace {

// Smaller all-reduces over several hosts use MPI alone; bench/allreduce/README.md has the
// measurement.
constexpr std::size_t kTieredBytes = std::size_t{64} << 10;

// A lost rank ends an MPI job: no operation in progress is certain to complete or to be cancelled.
// Other ranks of this host may wait in shared memory for a rank that has stopped already, so this
// rank stops the operations in shared memory, too.
void lose(MpiProcess& process, group::Watched* inside, const std::vector<Rank>& in_host,
          const group::LostRanks& lost) {
  if (lost.ranks.empty()) return;
  process.spoil(
      make_error(ErrorCode::kPeerLost, lost.ranks.front(), "the coordinator says: {}", lost.why));
  if (inside != nullptr) inside->lost({.ranks = in_host, .why = lost.why});
}

// The Job of engine=mpi. On one host the world is our own communicator over shared memory, unless
// JobOptions::mpi_inside says otherwise; its ranks learn the port and the secret over MPI. On
// several hosts it is a TieredCommunicator. Otherwise it is an MpiCommunicator.
class MpiJob final : public Job {
 public:
  explicit MpiJob(const JobOptions& options) : options_(options) {}
  ~MpiJob() override { close(); }

  Result<void> join();

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return options_.local_rank.value_or(hosts_.index_at(rank_)); }
  int local_size() const override { return hosts_.size_at(rank_); }
  std::uint32_t generation() const override { return options_.generation; }
  Communicator& world() override { return *world_; }

  Result<void> reform(const std::vector<Rank>&, Deadline) override {
    return invalid("engine=mpi cannot form a new group: a lost rank ends an MPI job");
  }

  void count_step(std::uint64_t samples) override {
    context_->count_step(samples);
    if (inside_) inside_->count_step(samples);
  }
  void set_step(std::uint64_t step) override {
    context_->steps = step;
    if (inside_) inside_->set_step(step);
  }
  void set_figure(std::string_view name, double value) override {
    context_->recorder->set_figure(name, value);
    if (inside_) inside_->set_figure(name, value);
  }
  void record_phase(std::string_view name, TimePoint started, TimePoint ended) override {
    context_->recorder->add_phase(name, started, ended);
    if (inside_) inside_->record_phase(name, started, ended);
  }

  void close() override {
    // The last report tells how the communicators ended, so it goes before they are closed.
    reporter_.reset();
    dump_.reset();
    if (world_) world_->close();
    if (inside_) inside_->close();
    if (all_) all_->close();
  }

 private:
  Result<void> check_ranks() const;
  Result<void> share_memory(Deadline by);
  Result<void> choose_world(Deadline by);
  Result<void> watch();
  std::shared_ptr<group::Watched> watched() const;

  const JobOptions options_;
  Rank rank_ = 0;
  int size_ = 1;
  std::shared_ptr<MpiContext> context_;
  Hosts hosts_;
  std::shared_ptr<MpiCommunicator> all_;           // every rank, over MPI alone
  std::shared_ptr<collective::MemberJob> inside_;  // the ranks of this host; null: not used
  std::shared_ptr<Communicator> world_;            // one of these two, or made of both
  std::unique_ptr<SignalDump> dump_;
  std::unique_ptr<group::Reporter> reporter_;
};

// Under a launcher that is not MPI's, each rank is an MPI job of its own.
Result<void> MpiJob::check_ranks() const {
  if (options_.size == 1 || (options_.size == size_ && options_.rank == rank_)) return {};
  return invalid(
      "this is rank {} of {}, but MPI has it as rank {} of {}: with "
      "engine=mpi, start it by that MPI's mpirun or by srun",
      options_.rank, options_.size, rank_, size_);
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
  context_->issuer = this_thread_id();
  context_->operation_timeout = options_.operation_timeout;
  context_->most_elements = INT_MAX;
  TALLY_TRY(all_, MpiCommunicator::world(context_, by));
  TALLY_TRY(hosts_, find_hosts(*all_, options_.host_label, by));
  context_->spins = spins_for(hosts_.on_this_machine, hosts_.cores);
  TALLY_TRY(choose_world(by));
  if (options_.dump_on_sigquit)
    dump_ =
        std::make_unique<SignalDump>([world = world_.get()] { return world->recent_operations(); });
  return watch();
}

// On one host the job over shared memory reports on the world and handles a lost rank.
std::shared_ptr<group::Watched> MpiJob::watched() const {
  if (inside_ && hosts_.one_host()) return inside_->watched();
  const std::shared_ptr<group::Watched> inside = inside_ ? inside_->watched() : nullptr;
  std::vector<Rank> in_host;
  for (Rank other = 0; inside_ && other < inside_->size(); ++other)
    if (other != inside_->rank()) in_host.push_back(other);
  return std::make_shared<collective::WatchedRank>(
      context_, [process = context_->process, inside, in_host](const group::LostRanks& lost) {
        lose(*process, inside.get(), in_host, lost);
      });
}

Result<void> MpiJob::watch() {
  if (options_.coordinator.empty()) return {};
  const auto identity = group::registration_of(options_, rank_, size_, generation());
  TALLY_TRY(reporter_, group::Reporter::start(options_, identity, watched()));
  return {};
}

Result<void> MpiJob::choose_world(Deadline by) {
  if (options_.mpi_inside != MpiInside::kMpi && !hosts_.all_alone()) TALLY_TRY(share_memory(by));
  if (inside_ == nullptr) {
    world_ = all_;
    all_->be_watched(0);
    return {};
  }
  // The alias keeps the job alive as long as its world is in use.
  const std::shared_ptr<Communicator> inside(inside_, &inside_->world());
  if (hosts_.one_host()) {
    world_ = inside;
    return {};
  }
  const auto over = [process = context_->process]() -> std::optional<Error> {
    if (!process->spoiled()) return std::nullopt;
    return process->why_spoiled();
  };
  TALLY_TRY(std::shared_ptr<TieredCommunicator> tiered,
            TieredCommunicator::make(all_, inside,
                                     {.operation_timeout = options_.operation_timeout,
                                      .least_bytes = kTieredBytes,
                                      .threads = context_->process->threads(),
                                      .over = over},
                                     by));
  tiered->be_watched(context_);
  world_ = std::move(tiered);
  return {};
}

// Either all ranks of the job share memory inside their hosts, or none.
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
  const Error error =
      inside.has_value()
          ? make_error(ErrorCode::kSystem, "the ranks of another host could not share memory")
          : inside.error();
  if (options_.mpi_inside == MpiInside::kShm) return error;
  log_warning(
      fmt::format("rank {}: using MPI inside hosts, too, because memory could not be shared: {}",
                  rank_, to_string(error)));
  return {};
}

Result<std::unique_ptr<Job>> join(const JobOptions& options) {
  auto job = std::make_unique<MpiJob>(options);
  TALLY_TRY(job->join());
  return std::unique_ptr<Job>(std::move(job));
}

}  // namespace
}  // namespace tally::mpi

// The only symbol of the plugin (plugin.map); collective/engine_plugin.h has its contract.
extern "C" int tally_engine_join(const tally::collective::EngineAbi* abi,
                                 const tally::JobOptions* options, tally::Job** job,
                                 tally::Error* error) {
  using namespace tally::collective;
  if (!(*abi == EngineAbi{})) return kEngineOtherAbi;
  auto joined = tally::mpi::join(*options);
  if (!joined.has_value()) {
    *error = std::move(joined).error();
    return kEngineFailed;
  }
  *job = std::move(joined).value().release();
  return kEngineJoined;
}
