#include "adapters/mpi/mpi_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "adapters/mpi/mpi_queue.h"
#include "adapters/mpi/polling.h"
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

bool is_point(const Request& request) {
  return request.operation == Operation::kSend || request.operation == Operation::kReceive;
}

// The job's rank of each rank of `comm`. Local.
Result<std::vector<Rank>> members_of(MPI_Comm comm, int size) {
  std::vector<Rank> own(static_cast<std::size_t>(size));
  std::iota(own.begin(), own.end(), 0);
  std::vector<Rank> members(own.size());
  MPI_Group everybody = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  TALLY_TRY(outcome_of(MPI_Comm_group(MPI_COMM_WORLD, &everybody), "MPI_Comm_group"));
  TALLY_TRY(outcome_of(MPI_Comm_group(comm, &group), "MPI_Comm_group"));
  TALLY_TRY(
      outcome_of(MPI_Group_translate_ranks(group, size, own.data(), everybody, members.data()),
                 "MPI_Group_translate_ranks"));
  MPI_Group_free(&group);
  MPI_Group_free(&everybody);
  return members;
}

Error closed_error() {
  return {.code = ErrorCode::kClosed, .message = "the communicator was closed"};
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiContext> context, const Scene& scene,
                                 std::vector<Rank> members, std::string name)
    : context_(std::move(context)),
      scene_(scene),
      members_(std::move(members)),
      name_(std::move(name)),
      recorder_(name_, scene_.site.rank, scene_.site.ranks) {}

MpiCommunicator::~MpiCommunicator() {
  close();
  queue_.reset();
  if (channel_) context_->registry.remove(*channel_);
  // Freed only where nothing can be under way. Collective by the standard, local in both libraries.
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
  const Scene everybody{.comm = MPI_COMM_WORLD, .ops = &context->ops};
  const Request arrival{.operation = Operation::kBarrier};
  MpiOperation operation(process, everybody, arrival);
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

// A rank that the coordinator lost is known by its number in the job.
Error MpiCommunicator::why_over() const {
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
  if (context_->process->spoiled()) return why_over();
  TALLY_TRY(collective::check(request, rank(), size()));
  if (request.algorithm != Algorithm::kAuto)
    return Error{
        .code = ErrorCode::kInvalid,
        .message = fmt::format("{} by {}: with engine=mpi the library chooses",
                               to_string(request.operation), to_string(request.algorithm))};
  const auto largest_tag = static_cast<std::uint32_t>(context_->process->largest_tag());
  if (is_point(request) && request.tag > largest_tag)
    return Error{
        .code = ErrorCode::kInvalid,
        .message = fmt::format("tag {}: this MPI carries tags up to {}", request.tag, largest_tag)};
  return {};
}

std::uint64_t MpiCommunicator::record(const Request& request) {
  const std::uint32_t sequence = is_point(request) ? request.tag : sequence_++;
  return recorder_.begin(sequence, request, Algorithm::kAuto, context_->clock.now());
}

std::unique_ptr<MpiOperation> MpiCommunicator::prepare(const Request& request) {
  return std::make_unique<MpiOperation>(*context_->process, scene_, request);
}

Result<bool> MpiCommunicator::look(MpiOperation& operation, Deadline by, const Request& request) {
  if (closed_.load(std::memory_order_relaxed)) return closed_error();
  if (context_->process->spoiled()) return why_over();
  TALLY_TRY(const bool complete, operation.advance());
  if (complete || !by.passed(context_->clock.now())) return complete;
  return Error{.code = ErrorCode::kTimeout,
               .message = fmt::format("{} was not complete at its deadline. MPI cannot tell which "
                                      "rank is missing, and the communicator is over",
                                      text_of(request))};
}

void MpiCommunicator::conclude(MpiOperation& operation, std::uint64_t record,
                               const Result<void>& outcome) {
  operations_.fetch_add(1, std::memory_order_relaxed);
  recorder_.end(record, context_->clock.now(), outcome);
  if (outcome.has_value()) return;
  operation.abandon(outcome.error());
  if (outcome.error().code == ErrorCode::kClosed) return;
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    failure_ = outcome.error();
    failed_.store(true, std::memory_order_release);
  }
  log_error(
      fmt::format("rank {}: {}\n{}", rank(), to_string(outcome.error()), recent_operations()));
}

void MpiCommunicator::note_waiting() {
  std::vector<Rank> others;
  for (Rank other = 0; other < size(); ++other)
    if (other != rank()) others.push_back(other);
  recorder_.awaiting(others);
}

Result<void> MpiCommunicator::drive(MpiOperation& operation, Deadline by, const Request& request) {
  TimePoint since{0};
  for (int looks = 0;; ++looks) {
    TALLY_TRY(const bool complete, look(operation, by, request));
    if (complete) return {};
    if (looks < spins()) continue;  // a look is pause enough
    const TimePoint now = context_->clock.now();
    if (looks == spins()) since = now;
    const Rest rest = rest_after(looks, spins(), now - since,
                                 patience_for(request.count * size_of(request.type), spins()));
    if (rest.pause == Pause::kSleep) note_waiting();
    take(rest);
  }
}

Result<void> MpiCommunicator::run(const Request& request) {
  context_->issuer.store(this_thread_id(), std::memory_order_relaxed);
  if (queue_ && !queue_->idle()) return start(request).wait();
  TALLY_TRY(admit(request));
  const std::uint64_t begun = record(request);
  MpiOperation operation(*context_->process, scene_, request);
  Result<void> outcome = drive(operation, deadline_of(request), request);
  conclude(operation, begun, outcome);
  return outcome;
}

Handle MpiCommunicator::start(const Request& request) {
  if (!context_->process->threads()) {
    auto state = std::make_shared<Handle::State>();
    state->complete(run(request));
    return Handle(state);
  }
  context_->issuer.store(this_thread_id(), std::memory_order_relaxed);
  if (!queue_) queue_ = std::make_unique<MpiQueue>(*this);
  return queue_->push(request);
}

Result<SharedBuffer> MpiCommunicator::allocate(std::size_t bytes) {
  return SharedBuffer::Owner::from_heap(bytes);
}

// Memory that MPI carries is nobody else's.
Result<std::vector<std::span<std::byte>>> MpiCommunicator::share(const SharedBuffer& buffer,
                                                                 Deadline) {
  std::vector<std::span<std::byte>> views(static_cast<std::size_t>(size()));
  views[static_cast<std::size_t>(rank())] = buffer.bytes();
  return views;
}

// The largest number that is new to everybody. What the ranks of one split are told apart by is
// their name.
Result<std::int32_t> MpiCommunicator::agree_on_channel(Deadline by) {
  std::int32_t channel = context_->next_channel.load();
  TALLY_TRY(allreduce(std::span<std::int32_t>(&channel, 1), ReduceOp::kMax, {.by = by}));
  context_->next_channel.store(channel + 1);
  return channel;
}

Result<std::unique_ptr<Communicator>> MpiCommunicator::split(int colour, int key, Deadline by) {
  // MPI_Comm_split waits without a deadline: it is called when everybody is known to be here.
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
         "  (over MPI, which does not tell who has arrived: while one waits, all others are listed "
         "as not arrived)\n";
}

}  // namespace tally::mpi
