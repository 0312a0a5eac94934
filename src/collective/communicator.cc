#include "collective/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "base/errors.h"
#include "base/stack_capture.h"
#include "collective/direct.h"
#include "collective/operations.h"
#include "collective/request.h"
#include "collective/shared_area.h"
#include "collective/shared_buffer.h"

namespace tally::collective {
namespace {

// The most bytes that one rank reads from the slots of more than one other.
constexpr std::size_t kSlotReadBytes = std::size_t{8} << 10;

// The topology of a communicator of these ranks of the job, as its rank `rank` sees it.
Topology topology_among(const Context& context, const std::vector<Rank>& members, Rank rank) {
  std::vector<int> host_of;
  for (const Rank member : members)
    host_of.push_back(context.host_of[static_cast<std::size_t>(member)]);
  return topology_of(host_of, rank);
}

}  // namespace

struct GroupCommunicator::Active final : OperationQueue::Operation {
  Active(GroupCommunicator& owner, std::unique_ptr<Task> made, const RunningOperation& begun,
         std::uint64_t recorded)
      : communicator(owner), task(std::move(made)), running(begun), record(recorded) {}

  Result<Progress> advance() override {
    const auto progress = task->advance();
    if (progress.has_value() && *progress == Progress::kMoved) running.stalled = false;
    return progress;
  }
  void conclude(const Result<void>& outcome) override;

  GroupCommunicator& communicator;
  std::unique_ptr<Task> task;
  RunningOperation running;
  std::uint64_t record;
};

GroupCommunicator::GroupCommunicator(std::shared_ptr<Context> context, Options options)
    : context_(std::move(context)),
      options_(std::move(options)),
      topology_(topology_among(*context_, options_.members, options_.rank)),
      placement_{.ranks = size(), .hosts = topology_.hosts},
      mailbox_(std::make_unique<Mailbox>(*context_->router, options_.channel, options_.members,
                                         options_.rank)),
      recorder_(options_.name, options_.rank, size()) {
  if (options_.area_memory != nullptr) {
    std::vector<SharedArea::Member> members;
    for (const Rank rank : topology_.neighbours) {
      const auto job_rank =
          static_cast<std::size_t>(options_.members[static_cast<std::size_t>(rank)]);
      members.push_back({.rank = rank, .in_host = context_->in_host[job_rank]});
    }
    area_ = std::make_unique<SharedArea>(context_->segment, options_.area_memory,
                                         std::move(members), topology_.local);
  }
  engine_ = std::make_unique<ProgressEngine>(*context_, *mailbox_, area_.get(), recorder_);
  context_->registry.add(options_.channel, {.recorder = &recorder_,
                                            .members = &options_.members,
                                            .failure = [this] { return failure(); }});
}

GroupCommunicator::~GroupCommunicator() {
  close();
  queue_.reset();
  context_->registry.remove(options_.channel);
  if (area_ == nullptr) return;
  area_->leave();
  if (!options_.owns_area) return;
  MutexLock lock(context_->router->mutex);
  context_->old_areas.push_back({options_.area_memory, area_->members()});
}

std::optional<Error> GroupCommunicator::failure() const {
  if (!mailbox_->failed()) return std::nullopt;
  MutexLock lock(context_->router->mutex);
  return mailbox_->failure();
}

Deadline GroupCommunicator::deadline_of(const Request& request) const {
  return request.by ? *request.by : context_->clock->after(context_->operation_timeout);
}

Result<void> GroupCommunicator::admit(const Request& request) {
  if (const auto over = failure()) return *over;
  if (closed_.load(std::memory_order_relaxed))
    return make_error(ErrorCode::kClosed, "the communicator was closed");
  return check(request, rank(), size());
}

bool GroupCommunicator::is_external(const Request& request) const {
  return make_external_ && !is_point(request) && request.operation != Operation::kBarrier;
}

Result<Algorithm> GroupCommunicator::algorithm_of(const Request& request) const {
  if (!is_external(request)) return choose(request, placement_);
  if (request.algorithm == Algorithm::kAuto) return Algorithm::kAuto;
  return invalid("{} by {}: the engine of this communicator chooses the algorithm",
                 to_string(request.operation), to_string(request.algorithm));
}

bool GroupCommunicator::fits_slot(const Request& request, Algorithm algorithm) const {
  if (algorithm != Algorithm::kDirect || area_ == nullptr) return false;
  if (request.operation == Operation::kBarrier) return true;
  // Every rank reads all slots, which pays off for few bytes. Two ranks read no more than they
  // would otherwise.
  const std::size_t bytes = request.count * size_of(request.type);
  if (request.operation != Operation::kAllreduce || bytes > SharedArea::kSlotBytes) return false;
  return size() == 2 || bytes * static_cast<std::size_t>(size() - 1) <= kSlotReadBytes;
}

Result<void> GroupCommunicator::run(const Request& request) {
  context_->issuer.store(this_thread_id(), std::memory_order_relaxed);
  if (queue_ && !queue_->idle()) return start(request).wait();
  return run_here(request);
}

Result<void> GroupCommunicator::run_here(const Request& request) {
  TALLY_TRY(admit(request));
  TALLY_TRY(const Algorithm algorithm, algorithm_of(request));
  if (fits_slot(request, algorithm)) return run_by_slot(request, context_->clock->now());
  TALLY_TRY(const auto active, make_active(request, deadline_of(request)));
  const Result<void> outcome = engine_->run(active->running);
  active->conclude(outcome);
  return outcome;
}

// The fast path of small messages inside a host: it allocates nothing and takes no lock.
Result<void> GroupCommunicator::run_by_slot(const Request& request, TimePoint now) {
  const std::uint32_t sequence = sequence_++;
  const wire::Signature signature = signature_of(request, Algorithm::kDirect);
  const std::uint64_t record = recorder_.begin(sequence, request, Algorithm::kDirect, now);
  const DirectPlan plan = direct_plan(request, rank(), size());
  const std::size_t bytes = request.count * size_of(request.type);
  const Notice notice{.sequence = 2 * sequence,
                      .signature = signature,
                      .input = place_of(*context_->segment, plan.input, bytes),
                      .output = place_of(*context_->segment, plan.output, bytes)};
  area_->announce(notice);
  SlotTask task(*area_, *mailbox_, notice, plan, request.count);
  RunningOperation running{
      .task = task,
      .by = request.by ? *request.by : deadline_after(now, context_->operation_timeout),
      .sequence = sequence,
      .signature = signature};
  const Result<void> outcome = engine_->run(running);
  operations_.fetch_add(1, std::memory_order_relaxed);
  recorder_.end(record, context_->clock->now(), outcome);
  if (running.begun) {
    MutexLock lock(context_->router->mutex);
    engine_->finish(running);
  }
  return outcome;
}

Result<std::unique_ptr<GroupCommunicator::Active>> GroupCommunicator::make_active(
    const Request& request, Deadline by) {
  TALLY_TRY(admit(request));
  TALLY_TRY(const Algorithm algorithm, algorithm_of(request));
  std::unique_ptr<ExternalOperation> external;
  if (is_external(request)) {
    auto made = make_external_(request);
    if (!made.has_value()) {
      if (made.error().code == ErrorCode::kInvalid) return made.error();
      // The other ranks would wait for this one.
      MutexLock lock(context_->router->mutex);
      engine_->fail(with_own_rank(made.error(), rank()));
      return mailbox_->failure();
    }
    external = std::move(*made);
  }
  const wire::Signature signature = signature_of(request, algorithm);
  const std::uint32_t sequence = is_point(request) ? request.tag : sequence_++;
  const std::uint64_t record =
      recorder_.begin(sequence, request, algorithm, context_->clock->now());
  const Site site{.mailbox = *mailbox_,
                  .area = area_.get(),
                  .topology = topology_,
                  .rank = rank(),
                  .ranks = size(),
                  .segments = {.at_once = context_->segments_at_once},
                  .traffic = traffic_};
  std::unique_ptr<Task> task;
  if (external != nullptr) {
    const Request entry{.operation = Operation::kBarrier};
    TALLY_TRY(const Algorithm way, choose(entry, placement_));
    task = std::make_unique<ExternalTask>(
        *mailbox_, make_task(site, entry, way, sequence, signature), std::move(external));
  } else {
    task = make_task(site, request, algorithm, sequence, signature);
  }
  RunningOperation running{.task = *task,
                           .by = by,
                           .sequence = sequence,
                           .signature = signature,
                           .point = is_point(request)};
  auto active = std::make_unique<Active>(*this, std::move(task), running, record);
  MutexLock lock(context_->router->mutex);
  engine_->begin(active->running);
  return active;
}

void GroupCommunicator::Active::conclude(const Result<void>& outcome) {
  GroupCommunicator& owner = communicator;
  if (!outcome.has_value()) {
    // The other ranks learn of the failure before the operation is given up, which may take long.
    {
      MutexLock lock(owner.context_->router->mutex);
      owner.engine_->fail(outcome.error());
    }
    task->cancel();
  }
  owner.operations_.fetch_add(1, std::memory_order_relaxed);
  owner.recorder_.end(record, owner.context_->clock->now(), outcome);
  MutexLock lock(owner.context_->router->mutex);
  owner.engine_->finish(running);
}

Result<std::unique_ptr<OperationQueue::Operation>> GroupCommunicator::prepare(
    const Request& request, Deadline by) {
  TALLY_TRY(auto active, make_active(request, by));
  return std::unique_ptr<OperationQueue::Operation>(std::move(active));
}

// The caller of the next two functions holds Router::mutex.

Deadline GroupCommunicator::diagnose(const std::list<OperationQueue::Item>& running)
    TALLY_NO_THREAD_SAFETY_ANALYSIS {
  Deadline by = Deadline::never();
  for (const OperationQueue::Item& item : running) {
    RunningOperation& operation = static_cast<Active&>(*item.operation).running;
    engine_->diagnose(operation);
    if (mailbox_->failed()) break;
    by = earlier(by, engine_->next_look(operation));
  }
  return by;
}

bool GroupCommunicator::ready(const std::list<OperationQueue::Item>& running) const {
  return std::any_of(running.begin(), running.end(), [](const OperationQueue::Item& item) {
    return static_cast<const Active&>(*item.operation).task->ready();
  });
}

// Spins for a while, then sleeps in the router until a message, a new request or a reason to
// diagnose.
void GroupCommunicator::rest(OperationQueue& queue, const std::list<OperationQueue::Item>& running,
                             int looks) {
  if (looks < context_->spins) return;
  MutexLock lock(context_->router->mutex);
  const Deadline by = diagnose(running);
  if (mailbox_->failed()) return;
  context_->router->wait(by, [&] { return queue.has_new() || ready(running); });
}

Handle GroupCommunicator::start(const Request& request) {
  context_->issuer.store(this_thread_id(), std::memory_order_relaxed);
  if (!queue_)
    queue_ = std::make_unique<OperationQueue>(static_cast<OperationQueue::Runner&>(*this),
                                              context_->started.get());
  return queue_->push(request);
}

void GroupCommunicator::wake() { context_->transport->wake(); }

Result<SharedBuffer> GroupCommunicator::allocate(std::size_t bytes) {
  release_old_areas();
  if (!context_->segment) return SharedBuffer::Owner::from_heap(bytes);
  const int member = context_->in_host[static_cast<std::size_t>(context_->rank)];
  return SharedBuffer::Owner::from_segment(context_->segment, member, bytes);
}

Result<std::vector<std::span<std::byte>>> GroupCommunicator::share(const SharedBuffer& buffer,
                                                                   Deadline by) {
  const std::span<std::byte> own = buffer.bytes();
  const std::array<std::int64_t, 2> mine = {
      context_->segment
          ? static_cast<std::int64_t>(context_->segment->name_of(own.data(), own.size()))
          : 0,
      static_cast<std::int64_t>(own.size())};  // name and bytes
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(size()));
  TALLY_TRY(allgather<std::int64_t>(mine, all, {.by = by}));
  std::vector<std::span<std::byte>> views(static_cast<std::size_t>(size()));
  views[static_cast<std::size_t>(rank())] = own;
  if (!context_->segment) return views;
  for (const Rank neighbour : topology_.neighbours) {
    const auto index = static_cast<std::size_t>(neighbour);
    const auto name = static_cast<std::uint64_t>(all[2 * index]);
    const auto bytes = static_cast<std::size_t>(all[2 * index + 1]);
    if (neighbour == rank() || name == 0) continue;
    std::byte* const memory = context_->segment->find(name, bytes);
    if (memory == nullptr) {
      return make_error(ErrorCode::kCorrupt, neighbour,
                        "{} bytes of memory that cannot be rank {}'s", bytes, neighbour);
    }
    views[index] = {memory, bytes};
  }
  return views;
}

void GroupCommunicator::release_old_areas() {
  MutexLock lock(context_->router->mutex);
  std::erase_if(context_->old_areas, [this](const Context::OldArea& old) {
    if (!SharedArea::abandoned(old.memory, old.members)) return false;
    context_->segment->release(old.memory);
    return true;
  });
}

// The first rank of the new communicator on each host allocates the area; all ranks of this
// communicator take part in the all-gather of its location, whatever their colour.
Result<std::byte*> GroupCommunicator::share_area(const std::vector<Rank>& members, Rank rank,
                                                 Deadline by) {
  std::int64_t mine = 0;
  Rank owner = kNoRank;
  std::size_t bytes = 0;
  if (context_->segment && !members.empty()) {
    std::vector<Rank> job_ranks;
    for (const Rank member : members)
      job_ranks.push_back(options_.members[static_cast<std::size_t>(member)]);
    const Topology topology = topology_among(*context_, job_ranks, rank);
    bytes = SharedArea::bytes_for(topology.locals());
    if (topology.locals() > 1)
      owner = members[static_cast<std::size_t>(topology.neighbours.front())];
  }
  if (owner == this->rank()) {
    release_old_areas();
    const int member = context_->in_host[static_cast<std::size_t>(context_->rank)];
    // The other ranks must learn that the allocation failed.
    const auto memory = context_->segment->allocate(member, bytes);
    if (memory.has_value())
      mine = static_cast<std::int64_t>(context_->segment->name_of(*memory, bytes));
  }
  std::vector<std::int64_t> names(static_cast<std::size_t>(size()));
  TALLY_TRY(allgather<std::int64_t>({&mine, 1}, names, {.by = by}));
  if (owner == kNoRank) return nullptr;
  std::byte* const memory = context_->segment->find(
      static_cast<std::uint64_t>(names[static_cast<std::size_t>(owner)]), bytes);
  if (memory == nullptr) {
    return make_error(ErrorCode::kExhausted, owner,
                      "rank {} had no shared memory for a new communicator", owner);
  }
  return memory;
}

Result<std::unique_ptr<Communicator>> GroupCommunicator::split(int colour, int key, Deadline by) {
  struct Wish {
    std::int64_t colour;
    std::int64_t key;
    std::int64_t channel;
  };
  Wish mine{colour, key, 0};
  {
    MutexLock lock(context_->router->mutex);
    mine.channel = context_->router->unused_id();
  }
  std::vector<Wish> wishes(static_cast<std::size_t>(size()));
  TALLY_TRY(run({.operation = Operation::kAllgather,
                 .input = &mine,
                 .output = wishes.data(),
                 .count = 3,
                 .type = DataType::kInt64,
                 .by = by}));
  std::uint32_t channel = 0;
  std::vector<Rank> members;  // in this communicator's ranks
  for (Rank other = 0; other < size(); ++other) {
    const Wish& wish = wishes[static_cast<std::size_t>(other)];
    channel = std::max(channel, static_cast<std::uint32_t>(wish.channel));
    if (colour >= 0 && wish.colour == colour) members.push_back(other);
  }
  std::stable_sort(members.begin(), members.end(), [&wishes](Rank a, Rank b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  const auto found = std::find(members.begin(), members.end(), rank());
  const Rank new_rank = static_cast<Rank>(found - members.begin());
  TALLY_TRY(std::byte* const area, share_area(members, new_rank, by));
  if (colour < 0) {
    MutexLock lock(context_->router->mutex);
    context_->router->skip_id(channel);
    return std::unique_ptr<Communicator>();
  }
  Options options{.name = fmt::format("{}/{}", options_.name, colour),
                  .channel = channel,
                  .rank = new_rank,
                  .area_memory = area};
  for (const Rank member : members)
    options.members.push_back(options_.members[static_cast<std::size_t>(member)]);
  options.owns_area =
      area != nullptr && topology_among(*context_, options.members, new_rank).local == 0;
  return std::unique_ptr<Communicator>(
      std::make_unique<GroupCommunicator>(context_, std::move(options)));
}

void GroupCommunicator::close() {
  if (closed_.exchange(true)) return;
  MutexLock lock(context_->router->mutex);
  mailbox_->close();
}

void GroupCommunicator::abort(const Error& why) {
  if (closed_.exchange(true)) return;
  MutexLock lock(context_->router->mutex);
  engine_->fail(with_own_rank(why, rank()));
}

Traffic GroupCommunicator::traffic() const {
  MutexLock lock(context_->router->mutex);
  Traffic traffic = traffic_;
  traffic.operations = operations_.load(std::memory_order_relaxed);
  return traffic;
}

std::string GroupCommunicator::recent_operations() const {
  return recorder_.text(context_->clock->now());
}

std::unique_ptr<GroupCommunicator> make_world(std::shared_ptr<Context> context,
                                              std::byte* area_memory) {
  GroupCommunicator::Options options{.rank = context->rank, .area_memory = area_memory};
  options.members.resize(context->host_of.size());
  std::iota(options.members.begin(), options.members.end(), 0);
  return std::make_unique<GroupCommunicator>(std::move(context), std::move(options));
}

}  // namespace tally::collective
