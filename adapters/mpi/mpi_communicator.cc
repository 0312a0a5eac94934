#include "adapters/mpi/mpi_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "base/log.h"
#include "base/stack_capture.h"
#include "collective/handle.h"
#include "collective/request.h"
#include "collective/shared_buffer.h"

namespace tally::mpi {
namespace {

std::string text_of(const Request& request) {
  return tally::describe(request.operation, request.count, request.type, request.reduce_op,
                         request.algorithm, request.root);
}

// The job's rank of each rank of `comm`. Sends nothing.
Result<std::vector<Rank>> members_of(MPI_Comm comm, int size) {
  std::vector<Rank> own(static_cast<std::size_t>(size));
  std::iota(own.begin(), own.end(), 0);
  std::vector<Rank> members(own.size());
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  TALLY_TRY(outcome_of(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group"));
  TALLY_TRY(outcome_of(MPI_Comm_group(comm, &group), "MPI_Comm_group"));
  TALLY_TRY(outcome_of(MPI_Group_translate_ranks(group, size, own.data(), world, members.data()),
                       "MPI_Group_translate_ranks"));
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return members;
}

Error closed_error() { return make_error(ErrorCode::kClosed, "the communicator was closed"); }

constexpr int kSpinsPerUnclockedPoll = 64;

using collective::is_point;
using collective::OperationQueue;
using collective::Progress;

}  // namespace

// An operation from its first poll to its end. A send or receive has an MpiOperation of its own:
// several are in progress at once.
class MpiCommunicator::Active final : public OperationQueue::Operation {
 public:
  Active(MpiCommunicator& communicator, const Request& request, Deadline by, TimePoint now)
      : communicator_(communicator),
        request_(request),
        by_(by),
        unclocked_polls_(communicator.context_->spins / kSpinsPerUnclockedPoll) {
    if (is_point(request)) point_.emplace(*communicator.context_->process, communicator.scene_);
    operation().prepare(request);
    const std::uint32_t sequence = is_point(request) ? request.tag : communicator.sequence_++;
    record_ = communicator.recorder_.begin(sequence, request, Algorithm::kAuto, now);
  }

  Result<Progress> advance() override;
  void conclude(const Result<void>& outcome) override;
  std::size_t bytes() const { return request_.count * size_of(request_.type); }

 private:
  MpiOperation& operation() { return point_ ? *point_ : communicator_.collective_; }

  MpiCommunicator& communicator_;
  const Request& request_;
  const Deadline by_;
  // The first polls take a few microseconds together and leave the clock alone, which costs as much
  // as a poll.
  int unclocked_polls_;
  std::optional<MpiOperation> point_;
  std::uint64_t record_ = 0;
};

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiContext> context, const Scene& scene,
                                 std::vector<Rank> members, std::string name)
    : context_(std::move(context)),
      scene_(scene),
      members_(std::move(members)),
      collective_(*context_->process, scene_),
      name_(std::move(name)),
      recorder_(name_, scene_.site.rank, scene_.site.ranks) {}

MpiCommunicator::~MpiCommunicator() {
  close();
  queue_.reset();
  if (channel_) context_->registry.remove(*channel_);
  // Freed only where nothing can be in progress. Freeing is collective by the standard, but sends
  // nothing in either library.
  if (failed_ || !context_->process->usable()) return;
  const auto entry = context_->process->enter();
  for (MPI_Comm comm : {scene_.points, scene_.comm}) MPI_Comm_free(&comm);
}

Result<std::unique_ptr<MpiCommunicator>> MpiCommunicator::adopt(std::shared_ptr<MpiContext> context,
                                                                MPI_Comm comm, std::string name) {
  Scene scene{.comm = comm, .ops = &context->ops, .site = {.most = context->most_elements}};
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  TALLY_TRY(outcome_of(MPI_Comm_dup(comm, &scene.points), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(scene.points, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &scene.site.rank);
  MPI_Comm_size(comm, &scene.site.ranks);
  TALLY_TRY(std::vector<Rank> members, members_of(comm, scene.site.ranks));
  return std::unique_ptr<MpiCommunicator>(
      new MpiCommunicator(std::move(context), scene, std::move(members), std::move(name)));
}

Result<std::unique_ptr<MpiCommunicator>> MpiCommunicator::world(std::shared_ptr<MpiContext> context,
                                                                Deadline by) {
  MpiProcess& process = *context->process;
  const Scene scene{.comm = MPI_COMM_WORLD, .ops = &context->ops};
  MpiOperation operation(process, scene);
  operation.prepare({.operation = Operation::kBarrier});
  const TimePoint since = context->clock.now();
  for (int looks = 0;; ++looks) {
    TALLY_TRY(const bool complete, operation.advance());
    if (complete) break;
    const TimePoint now = context->clock.now();
    if (by.passed(now)) {
      Error late{
          .code = ErrorCode::kTimeout,
          .message = "not all ranks of MPI_COMM_WORLD joined in time; MPI cannot tell which"};
      operation.abandon(late);
      return late;
    }
    take(rest_after(looks, context->spins, now - since, patience_for(0, context->spins)));
  }
  const auto entry = process.enter();
  MPI_Comm comm = MPI_COMM_NULL;
  TALLY_TRY(outcome_of(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup"));
  return adopt(std::move(context), comm, "world");
}

void MpiCommunicator::be_watched(std::uint32_t channel) {
  channel_ = channel;
  context_->registry.add(channel, {.recorder = &recorder_, .members = &members_, .failure = [this] {
                                     return failure();
                                   }});
}

std::optional<Error> MpiCommunicator::failure() const {
  if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
  const MutexLock lock(mutex_);
  return failure_;
}

// The coordinator names a lost rank by its number in the job.
Error MpiCommunicator::why_unusable() const {
  Error error = context_->process->why_spoiled();
  if (error.code != ErrorCode::kPeerLost) return error;
  const auto found = std::find(members_.begin(), members_.end(), error.peer);
  error.peer = found == members_.end() ? kNoRank : static_cast<Rank>(found - members_.begin());
  return error;
}

Deadline MpiCommunicator::deadline_of(const Request& request) const {
  return request.by ? *request.by : context_->clock.after(context_->operation_timeout);
}

Result<void> MpiCommunicator::admit(const Request& request) const {
  if (const auto over = failure()) return *over;
  if (closed_.load(std::memory_order_relaxed)) return closed_error();
  if (context_->process->spoiled()) return why_unusable();
  TALLY_TRY(collective::check(request, rank(), size()));
  if (request.algorithm != Algorithm::kAuto)
    return invalid("{} by {}: with engine=mpi the library chooses", to_string(request.operation),
                   to_string(request.algorithm));
  const auto largest_tag = static_cast<std::uint32_t>(context_->process->largest_tag());
  if (is_point(request) && request.tag > largest_tag)
    return invalid("tag {}: this MPI carries tags up to {}", request.tag, largest_tag);
  return {};
}

Result<Progress> MpiCommunicator::Active::advance() {
  if (communicator_.closed_.load(std::memory_order_relaxed)) return closed_error();
  const MpiContext& context = *communicator_.context_;
  if (context.process->spoiled()) return communicator_.why_unusable();
  TALLY_TRY(const bool complete, operation().advance());
  if (complete) return Progress::kComplete;
  if (unclocked_polls_ > 0) {
    --unclocked_polls_;
    return Progress::kBlocked;
  }
  if (!by_.passed(context.clock.now())) return Progress::kBlocked;
  return make_error(ErrorCode::kTimeout,
                    "{} was not complete at its deadline. MPI cannot tell which "
                    "rank is missing, and the communicator is over",
                    text_of(request_));
}

void MpiCommunicator::Active::conclude(const Result<void>& outcome) {
  MpiCommunicator& owner = communicator_;
  owner.operations_.fetch_add(1, std::memory_order_relaxed);
  owner.recorder_.end(record_, owner.context_->clock.now(), outcome);
  if (outcome.has_value()) return;
  operation().abandon(outcome.error());
  if (outcome.error().code == ErrorCode::kClosed) return;
  {
    const MutexLock lock(owner.mutex_);
    if (owner.failure_) return;
    owner.failure_ = outcome.error();
    owner.failed_.store(true, std::memory_order_release);
  }
  log_error(fmt::format("rank {}: {}\n{}", owner.rank(), to_string(outcome.error()),
                        owner.recent_operations()));
}

Rest MpiCommunicator::pause_after(int looks, TimePoint since, std::size_t bytes) {
  const int spins = context_->spins;
  const Rest rest =
      rest_after(looks, spins, context_->clock.now() - since, patience_for(bytes, spins));
  if (rest.pause == Pause::kSleep) {
    std::vector<Rank> others;
    for (Rank other = 0; other < size(); ++other)
      if (other != rank()) others.push_back(other);
    recorder_.awaiting(others);
  }
  return rest;
}

Result<void> MpiCommunicator::poll_until_complete(Active& active) {
  TimePoint since{0};
  for (int looks = 0;; ++looks) {
    TALLY_TRY(const Progress progress, active.advance());
    if (progress == Progress::kComplete) return {};
    if (looks < context_->spins) continue;  // a poll is pause enough
    if (looks == context_->spins) since = context_->clock.now();
    take(pause_after(looks, since, active.bytes()));
  }
}

Result<void> MpiCommunicator::run(const Request& request) {
  context_->issuer.store(this_thread_id(), std::memory_order_relaxed);
  if (queue_ && !queue_->idle()) return start(request).wait();
  TALLY_TRY(admit(request));
  const TimePoint now = context_->clock.now();
  Active active(*this, request,
                request.by ? *request.by : deadline_after(now, context_->operation_timeout), now);
  Result<void> outcome = poll_until_complete(active);
  active.conclude(outcome);
  return outcome;
}

Handle MpiCommunicator::start(const Request& request) {
  if (!context_->process->threads()) return ended_handle(run(request));
  context_->issuer.store(this_thread_id(), std::memory_order_relaxed);
  if (!queue_)
    queue_ = std::make_unique<OperationQueue>(static_cast<OperationQueue::Runner&>(*this));
  return queue_->push(request);
}

Result<std::unique_ptr<OperationQueue::Operation>> MpiCommunicator::prepare(const Request& request,
                                                                            Deadline by) {
  TALLY_TRY(admit(request));
  return std::unique_ptr<OperationQueue::Operation>(
      std::make_unique<Active>(*this, request, by, context_->clock.now()));
}

// A new request ends the sleep.
void MpiCommunicator::rest(OperationQueue& queue, const std::list<OperationQueue::Item>& running,
                           int looks) {
  if (looks == 0) resting_since_ = context_->clock.now();
  std::size_t bytes = 0;
  for (const OperationQueue::Item& item : running)
    bytes = std::max(bytes, item.request.count * size_of(item.request.type));
  const Rest rest = pause_after(looks, resting_since_, bytes);
  if (rest.pause == Pause::kSleep) {
    queue.wait_for_new(rest.sleep);
  } else {
    take(rest);
  }
}

Result<SharedBuffer> MpiCommunicator::allocate(std::size_t bytes) {
  return SharedBuffer::Owner::from_heap(bytes);
}

// Ranks that only MPI connects see no memory of each other.
Result<std::vector<std::span<std::byte>>> MpiCommunicator::share(const SharedBuffer& buffer,
                                                                 Deadline) {
  std::vector<std::span<std::byte>> views(static_cast<std::size_t>(size()));
  views[static_cast<std::size_t>(rank())] = buffer.bytes();
  return views;
}

// The largest number that is new to all ranks. The communicators that one split makes share it and
// have different names.
Result<std::int32_t> MpiCommunicator::agree_on_channel(Deadline by) {
  std::int32_t channel = context_->next_channel.load();
  TALLY_TRY(allreduce(std::span<std::int32_t>(&channel, 1), ReduceOp::kMax, {.by = by}));
  context_->next_channel.store(channel + 1);
  return channel;
}

Result<std::unique_ptr<Communicator>> MpiCommunicator::split(int colour, int key, Deadline by) {
  // MPI_Comm_split knows no deadline. The all-reduce before it shows that all ranks are here.
  TALLY_TRY(const std::int32_t channel, agree_on_channel(by));
  const auto entry = context_->process->enter();
  MPI_Comm comm = MPI_COMM_NULL;
  TALLY_TRY(outcome_of(MPI_Comm_split(scene_.comm, colour < 0 ? MPI_UNDEFINED : colour, key, &comm),
                       "MPI_Comm_split"));
  if (comm == MPI_COMM_NULL) return std::unique_ptr<Communicator>();
  TALLY_TRY(auto made, adopt(context_, comm, fmt::format("{}/{}", name_, colour)));
  made->be_watched(static_cast<std::uint32_t>(channel));
  return std::unique_ptr<Communicator>(std::move(made));
}

void MpiCommunicator::close() { closed_.store(true); }

Traffic MpiCommunicator::traffic() const {
  return {.operations = operations_.load(std::memory_order_relaxed)};
}

std::string MpiCommunicator::recent_operations() const {
  return recorder_.text(context_->clock.now()) +
         "  (MPI does not tell which ranks have arrived: while this rank waits, all others are "
         "listed as not arrived)\n";
}

}  // namespace tally::mpi
