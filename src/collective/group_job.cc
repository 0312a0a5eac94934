#include "collective/group_job.h"

#include <algorithm>
#include <cstdlib>

#include "base/errors.h"
#include "base/signal_dump.h"
#include "collective/communicator.h"
#include "collective/engine_plugin.h"
#include "collective/watched_rank.h"
#include "group/bootstrap.h"
#include "group/host.h"
#include "group/machine_share.h"
#include "group/membership.h"

namespace tally::collective {
namespace {

// Ends the operations with these ranks.
void lose(Context& context, const group::LostRanks& lost) {
  MutexLock lock(context.router->mutex);
  if (context.left) return;
  for (const Rank rank : lost.ranks) {
    if (rank < 0 || rank >= context.transport->size()) continue;
    context.router->lost(
        rank, make_error(ErrorCode::kPeerLost, rank, "the coordinator says: {}", lost.why));
  }
  context.router->progress();
  // Peers that do not know of the loss yet may still write to memory of this rank.
  if (context.segment) context.segment->stop_reuse();
  // The thread that drives the transport sleeps without the mutex.
  context.transport->wake();
}

// A rank that is a process.
class GroupJob final : public MemberJob {
 public:
  // `listener`: set if this rank listens already.
  GroupJob(const JobOptions& options, std::optional<net::Listener> listener)
      : options_(options), listener_(std::move(listener)) {}
  ~GroupJob() override { close(); }

  Result<void> join(Deadline by) {
    const auto joining = std::make_shared<JoiningRank>();
    TALLY_TRY(watch(options_.rank, options_.size, options_.generation, joining));
    const Result<void> formed =
        form({.rank = options_.rank,
              .size = options_.size,
              .generation = options_.generation,
              .meet_at = 0,
              .meet_address = {.host = options_.master_address, .port = options_.master_port}},
             by);
    if (!formed.has_value()) joining->failed(formed.error());
    return formed;
  }

  Rank rank() const override { return context_->rank; }
  int size() const override { return static_cast<int>(members_.members.size()); }
  int local_rank() const override {
    // The launcher's local rank and size hold only for the ranks that it started.
    if (options_.local_rank && generation() == options_.generation) return *options_.local_rank;
    return context_->in_host[static_cast<std::size_t>(rank())];
  }
  int local_size() const override {
    if (options_.local_size && generation() == options_.generation) return *options_.local_size;
    const auto& hosts = context_->host_of;
    return static_cast<int>(
        std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(rank())]));
  }
  std::uint32_t generation() const override { return members_.generation; }
  Communicator& world() override { return *world_; }

  Result<void> reform(const std::vector<Rank>& lost, Deadline by) override {
    std::vector<Rank> gone = lost;
    Rank meet_at = 0;
    while (std::find(gone.begin(), gone.end(), meet_at) != gone.end()) ++meet_at;
    if (meet_at >= size() || std::find(gone.begin(), gone.end(), rank()) != gone.end())
      return invalid("this rank itself is among the lost");
    const group::MembershipOptions next{
        .rank = rank(),
        .size = size(),
        .generation = generation() + 1,
        .token = members_.token,
        .lost = std::move(gone),
        .meet_at = meet_at,
        .meet_address = members_.members[static_cast<std::size_t>(meet_at)].listens};
    leave();
    return form(next, by);
  }

  void count_step(std::uint64_t samples) override { context_->count_step(samples); }
  void set_step(std::uint64_t step) override { context_->steps = step; }
  void set_figure(std::string_view name, double value) override {
    context_->recorder->set_figure(name, value);
  }
  void record_phase(std::string_view name, TimePoint started, TimePoint ended) override {
    context_->recorder->add_phase(name, started, ended);
  }

  std::shared_ptr<group::Watched> watched() const override {
    return std::make_shared<WatchedRank>(
        context_, [context = context_](const group::LostRanks& lost) { lose(*context, lost); });
  }

  void close() override {
    // The last report, before the communicators are closed, tells how they ended.
    reporter_.reset();
    leave();
  }

 private:
  void leave() {
    dump_.reset();
    if (!world_ || closed_) return;
    closed_ = true;
    world_->close();
    MutexLock lock(context_->router->mutex);
    context_->left = true;
    context_->transport->close();
  }

  // Called before there is a membership and with each new one; the Reporter keeps its connection.
  Result<void> watch(Rank rank, int size, std::uint32_t generation,
                     std::shared_ptr<group::Watched> speaker) {
    if (options_.coordinator.empty()) return {};
    const auto identity = group::registration_of(options_, rank, size, generation);
    if (reporter_) {
      reporter_->move_to(identity, std::move(speaker));
      return {};
    }
    TALLY_TRY(reporter_, group::Reporter::start(options_, identity, std::move(speaker)));
    return {};
  }

  Result<void> form(group::MembershipOptions options, Deadline by) {
    options.transport = options_.transport;
    options.tcp_threads = options_.tcp_threads;
    options.secret = options_.secret;
    options.host_label = options_.host_label;
    options.shared_bytes = [](int members) { return SharedArea::bytes_for(members); };
    auto context = std::make_shared<Context>();
    context->clock = std::make_unique<SteadyClock>();
    TALLY_TRY(group::Membership membership, group::form(options, listener_, *context->clock, by));
    context->transport = std::move(membership.transport);
    context->router = std::make_unique<net::Router>(*context->transport, *context->clock);
    context->segment = membership.segment;
    context->rank = membership.rank;
    context->host_of = membership.host_of;
    context->in_host = membership.in_host;
    context->operation_timeout = options_.operation_timeout;
    context->issuer = this_thread_id();
    if (context_) {
      context->steps = context_->steps.load();
      context->samples = context_->samples.load();
      context->recorder = context_->recorder;
    }
    context_ = std::move(context);
    members_ = std::move(membership.welcome);
    context_->spins =
        group::has_a_core_for_each_rank(group::machine_share(members_, rank())) ? kSpins : 0;
    context_->segments_at_once = group::all_ranks_have_two_cores(members_) ? 2 : 1;
    world_ = make_world(context_, membership.shared_note);
    closed_ = false;
    if (options_.dump_on_sigquit)
      dump_ = std::make_unique<SignalDump>(
          [world = world_.get()] { return world->recent_operations(); });
    if (options_.coordinator.empty()) return {};
    return watch(rank(), this->size(), generation(), watched());
  }

  const JobOptions options_;
  std::optional<net::Listener> listener_;
  std::shared_ptr<Context> context_;  // of the membership
  group::Welcome members_;
  std::unique_ptr<GroupCommunicator> world_;
  std::unique_ptr<SignalDump> dump_;
  std::unique_ptr<group::Reporter> reporter_;
  bool closed_ = false;
};

}  // namespace

Result<std::unique_ptr<MemberJob>> join_group(const JobOptions& options) {
  const Deadline by = Deadline::after(options.join_timeout);
  TALLY_TRY(group::BootstrapResult found, group::bootstrap(options, by));
  auto job = std::make_unique<GroupJob>(found.options, std::move(found.listener));
  TALLY_TRY(job->join(by));
  return std::unique_ptr<MemberJob>(std::move(job));
}

}  // namespace tally::collective

namespace tally {

Result<std::unique_ptr<Job>> Job::join(const JobOptions& options) {
  if (options.engine == Engine::kMpi) {
    return collective::join_by_plugin(options, [](const char* name) { return std::getenv(name); });
  }
  TALLY_TRY(auto job, collective::join_group(options));
  return std::unique_ptr<Job>(std::move(job));
}

}  // namespace tally
