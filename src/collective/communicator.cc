#include "collective/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/stack_capture.h"
#include "collective/direct.h"
#include "collective/handle.h"
#include "collective/operation_queue.h"
#include "collective/operations.h"
#include "collective/places.h"
#include "collective/request.h"
#include "collective/shared_buffer.h"

namespace tally::collective {
namespace {

// What one rank may read from the slots of more than one other.
constexpr std::size_t kSlotReadBytes = std::size_t{8} << 10;

bool is_point(const Request& request) {
  return request.operation == Operation::kSend || request.operation == Operation::kReceive;
}

// The communicator's ranks by host, hosts in the order of their first rank.
Hosts hosts_of(const Context& context, const std::vector<Rank>& members) {
  Hosts hosts;
  std::map<int, std::size_t> index;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const int host = context.host_of[static_cast<std::size_t>(members[rank])];
    const auto [found, is_new] = index.emplace(host, hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[found->second].push_back(static_cast<Rank>(rank));
  }
  return hosts;
}

const std::vector<Rank>& host_with(const Hosts& hosts, Rank rank) {
  for (const auto& host : hosts)
    if (std::find(host.begin(), host.end(), rank) != host.end()) return host;
  TALLY_UNREACHABLE();
}

}  // namespace

GroupCommunicator::GroupCommunicator(std::shared_ptr<Context> context, Options options)
    : context_(std::move(context)),
      options_(std::move(options)),
      hosts_(hosts_of(*context_, options_.members)),
      placement_{.ranks = size(), .hosts = static_cast<int>(hosts_.size())},
      mailbox_(std::make_unique<Mailbox>(*context_->room, options_.channel, options_.members,
                                         options_.rank)),
      recorder_(options_.name, options_.rank, size()) {
  if (options_.board_memory != nullptr) {
    std::vector<Board::Member> members;
    int self = 0;
    for (const Rank rank : host_with(hosts_, options_.rank)) {
      if (rank == options_.rank) self = static_cast<int>(members.size());
      const auto job_rank =
          static_cast<std::size_t>(options_.members[static_cast<std::size_t>(rank)]);
      members.push_back({.rank = rank, .in_host = context_->in_host[job_rank]});
    }
    board_ =
        std::make_unique<Board>(context_->segment, options_.board_memory, std::move(members), self);
  }
  driver_ = std::make_unique<Driver>(*context_, *mailbox_, board_.get(), recorder_);
  context_->registry.add(options_.channel, {.recorder = &recorder_,
                                            .members = &options_.members,
                                            .failure = [this] { return failure(); }});
}

GroupCommunicator::~GroupCommunicator() {
  close();
  queue_.reset();
  context_->registry.remove(options_.channel);
  if (board_ == nullptr) return;
  board_->leave();
  if (!options_.owns_board) return;
  MutexLock lock(context_->room->mutex);
  context_->old_boards.push_back({options_.board_memory, board_->members()});
}

std::optional<Error> GroupCommunicator::failure() const {
  if (!mailbox_->failed()) return std::nullopt;
  MutexLock lock(context_->room->mutex);
  return mailbox_->failure();
}

Deadline GroupCommunicator::deadline_of(const Request& request) const {
  return request.by ? *request.by : context_->clock->after(context_->operation_timeout);
}

Result<void> GroupCommunicator::admit(const Request& request) {
  if (const auto over = failure()) return *over;
  if (closed_.load(std::memory_order_relaxed))
    return Error{.code = ErrorCode::kClosed, .message = "the communicator was closed"};
  return check(request, rank(), size());
}

bool GroupCommunicator::fits_slot(const Request& request, Algorithm algorithm) const {
  if (algorithm != Algorithm::kDirect || board_ == nullptr) return false;
  if (request.operation == Operation::kBarrier) return true;
  // Everybody reads everybody's slot: worth it while that is little. With two ranks it is what they
  // would read anyway.
  const std::size_t bytes = request.count * size_of(request.type);
  if (request.operation != Operation::kAllreduce || bytes > Board::kSlotBytes) return false;
  return size() == 2 || bytes * static_cast<std::size_t>(size() - 1) <= kSlotReadBytes;
}

Result<void> GroupCommunicator::run(const Request& request) {
  context_->issuer.store(this_thread_id(), std::memory_order_relaxed);
  if (queue_ && !queue_->idle()) return start(request).wait();
  return run_here(request);
}

Result<void> GroupCommunicator::run_here(const Request& request) {
  TALLY_TRY(admit(request));
  TALLY_TRY(const Algorithm algorithm, choose(request, placement_));
  if (fits_slot(request, algorithm)) return run_by_slot(request, context_->clock->now());
  TALLY_TRY(const auto active, prepare(request, deadline_of(request)));
  const Result<void> outcome = driver_->run(active->drive);
  conclude(*active, outcome);
  return outcome;
}

// The way of small messages inside a host, kept short: nothing is allocated and no lock is taken.
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
  board_->announce(notice);
  SlotTask task(*board_, *mailbox_, notice, plan, request.count);
  Drive drive{.task = task,
              .by = request.by ? *request.by : deadline_after(now, context_->operation_timeout),
              .sequence = sequence,
              .signature = signature};
  const Result<void> outcome = driver_->run(drive);
  operations_.fetch_add(1, std::memory_order_relaxed);
  recorder_.end(record, context_->clock->now(), outcome);
  if (drive.begun) {
    MutexLock lock(context_->room->mutex);
    driver_->finish(drive);
  }
  return outcome;
}

Result<std::unique_ptr<GroupCommunicator::Active>> GroupCommunicator::prepare(
    const Request& request, Deadline by) {
  TALLY_TRY(admit(request));
  TALLY_TRY(const Algorithm algorithm, choose(request, placement_));
  const wire::Signature signature = signature_of(request, algorithm);
  const std::uint32_t sequence = is_point(request) ? request.tag : sequence_++;
  const std::uint64_t record =
      recorder_.begin(sequence, request, algorithm, context_->clock->now());
  const Site site{.mailbox = *mailbox_,
                  .board = board_.get(),
                  .hosts = hosts_,
                  .rank = rank(),
                  .ranks = size(),
                  .traffic = traffic_};
  auto task = make_task(site, request, algorithm, sequence, signature);
  Drive drive{.task = *task,
              .by = by,
              .sequence = sequence,
              .signature = signature,
              .point = is_point(request)};
  auto active = std::unique_ptr<Active>(new Active{std::move(task), drive, record});
  MutexLock lock(context_->room->mutex);
  driver_->begin(active->drive);
  return active;
}

void GroupCommunicator::conclude(Active& active, const Result<void>& outcome) {
  if (!outcome.has_value()) active.task->cancel();
  operations_.fetch_add(1, std::memory_order_relaxed);
  recorder_.end(active.record, context_->clock->now(), outcome);
  MutexLock lock(context_->room->mutex);
  if (!outcome.has_value()) driver_->fail(outcome.error());
  driver_->finish(active.drive);
}

Handle GroupCommunicator::start(const Request& request) {
  context_->issuer.store(this_thread_id(), std::memory_order_relaxed);
  if (!context_->threads) {
    auto state = std::make_shared<Handle::State>();
    state->complete(run_here(request));
    return Handle(state);
  }
  if (!queue_) queue_ = std::make_unique<OperationQueue>(*this);
  return queue_->push(request);
}

void GroupCommunicator::wake() { context_->transport->wake(); }

Result<SharedBuffer> GroupCommunicator::allocate(std::size_t bytes) {
  release_old_boards();
  if (!context_->segment) return SharedBuffer::Owner::from_heap(bytes);
  const int member = context_->in_host[static_cast<std::size_t>(context_->rank)];
  return SharedBuffer::Owner::from_segment(context_->segment, member, bytes);
}

Result<std::vector<std::span<std::byte>>> GroupCommunicator::share(const SharedBuffer& buffer,
                                                                   Deadline by) {
  struct Name {
    std::uint64_t name;
    std::uint64_t bytes;
  };
  const std::span<std::byte> own = buffer.bytes();
  const Name mine{context_->segment ? context_->segment->name_of(own.data(), own.size()) : 0,
                  own.size()};
  std::vector<Name> names(static_cast<std::size_t>(size()));
  TALLY_TRY(run({.operation = Operation::kAllgather,
                 .input = &mine,
                 .output = names.data(),
                 .count = 2,
                 .type = DataType::kInt64,
                 .by = by}));
  std::vector<std::span<std::byte>> views(names.size());
  views[static_cast<std::size_t>(rank())] = own;
  if (!context_->segment) return views;
  for (const Rank neighbour : host_with(hosts_, rank())) {
    const auto index = static_cast<std::size_t>(neighbour);
    const Name& name = names[index];
    if (neighbour == rank() || name.name == 0) continue;
    std::byte* const memory = context_->segment->find(name.name, name.bytes);
    if (memory == nullptr) {
      return Error{.code = ErrorCode::kCorrupt,
                   .peer = neighbour,
                   .message = fmt::format("{} bytes of memory that cannot be rank {}'s", name.bytes,
                                          neighbour)};
    }
    views[index] = {memory, name.bytes};
  }
  return views;
}

void GroupCommunicator::release_old_boards() {
  MutexLock lock(context_->room->mutex);
  std::erase_if(context_->old_boards, [this](const Context::OldBoard& old) {
    if (!Board::abandoned(old.memory, old.members)) return false;
    context_->segment->release(old.memory);
    return true;
  });
}

// The first rank of the new communicator on each host allocates the board; all ranks of this
// communicator take part in telling, whatever their colour.
Result<std::byte*> GroupCommunicator::share_board(const std::vector<Rank>& members, Rank rank,
                                                  Deadline by) {
  std::uint64_t mine = 0;
  Rank owner = kNoRank;
  std::size_t bytes = 0;
  if (context_->segment && !members.empty()) {
    std::vector<Rank> job_ranks;
    for (const Rank member : members)
      job_ranks.push_back(options_.members[static_cast<std::size_t>(member)]);
    const Hosts hosts = hosts_of(*context_, job_ranks);
    const std::vector<Rank>& host = host_with(hosts, rank);
    bytes = Board::bytes_for(static_cast<int>(host.size()));
    if (host.size() > 1) owner = members[static_cast<std::size_t>(host.front())];
  }
  if (owner == this->rank()) {
    release_old_boards();
    const int member = context_->in_host[static_cast<std::size_t>(context_->rank)];
    // Without memory the others must still be told.
    const auto memory = context_->segment->allocate(member, bytes);
    if (memory.has_value()) mine = context_->segment->name_of(*memory, bytes);
  }
  std::vector<std::uint64_t> names(static_cast<std::size_t>(size()));
  TALLY_TRY(run({.operation = Operation::kAllgather,
                 .input = &mine,
                 .output = names.data(),
                 .count = 1,
                 .type = DataType::kInt64,
                 .by = by}));
  if (owner == kNoRank) return nullptr;
  std::byte* const memory = context_->segment->find(names[static_cast<std::size_t>(owner)], bytes);
  if (memory == nullptr) {
    return Error{
        .code = ErrorCode::kExhausted,
        .peer = owner,
        .message = fmt::format("rank {} had no shared memory for a new communicator", owner)};
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
    MutexLock lock(context_->room->mutex);
    mine.channel = context_->room->unused_id();
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
  TALLY_TRY(std::byte* const board, share_board(members, new_rank, by));
  if (colour < 0) {
    MutexLock lock(context_->room->mutex);
    context_->room->skip_id(channel);
    return std::unique_ptr<Communicator>();
  }
  Options options{.name = fmt::format("{}/{}", options_.name, colour),
                  .channel = channel,
                  .rank = new_rank,
                  .board_memory = board};
  for (const Rank member : members)
    options.members.push_back(options_.members[static_cast<std::size_t>(member)]);
  if (board != nullptr) {
    const Hosts hosts = hosts_of(*context_, options.members);
    options.owns_board = host_with(hosts, new_rank).front() == new_rank;
  }
  return std::unique_ptr<Communicator>(
      std::make_unique<GroupCommunicator>(context_, std::move(options)));
}

void GroupCommunicator::close() {
  if (closed_.exchange(true)) return;
  MutexLock lock(context_->room->mutex);
  mailbox_->close();
}

Traffic GroupCommunicator::traffic() const {
  MutexLock lock(context_->room->mutex);
  Traffic traffic = traffic_;
  traffic.operations = operations_.load(std::memory_order_relaxed);
  return traffic;
}

std::string GroupCommunicator::recent_operations() const {
  return recorder_.text(context_->clock->now());
}

}  // namespace tally::collective
