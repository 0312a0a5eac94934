#include "adapters/nccl/emulation/clique.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "kernel/reduce/reduce.h"

// A rank puts its calls in their places and waits. The rank that completes an operation moves the
// data of all ranks, whose streams wait meanwhile, so that their memory stays as it is.
namespace tally::nccl::emulation {
namespace {

using Kind = Call::Kind;

bool are_same(const Call& a, const Call& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.op == b.op &&
         a.peer == b.peer;
}

std::byte* at(void* memory, std::size_t offset) { return static_cast<std::byte*>(memory) + offset; }
const std::byte* at(const void* memory, std::size_t offset) {
  return static_cast<const std::byte*>(memory) + offset;
}

// Adds in the order of the ranks.
std::vector<std::byte> reduced(const std::vector<const Call*>& calls, std::size_t count) {
  const Call& first = *calls.front();
  std::vector<std::byte> sum(count * size_of(first.type));
  std::memcpy(sum.data(), first.from, sum.size());
  for (std::size_t rank = 1; rank < calls.size(); ++rank)
    kernel::kernels().combine(first.type, first.op, sum.data(), calls[rank]->from, count);
  return sum;
}

}  // namespace

Clique::Clique(int size) : size_(size), members_(static_cast<std::size_t>(size)) {}

void Clique::enter() {
  const MutexLock lock(mutex_);
  ++entered_;
}

bool Clique::is_complete() {
  const MutexLock lock(mutex_);
  return entered_ == size_;
}

void Clique::run(int rank, const std::vector<Call>& calls) {
  const MutexLock lock(mutex_);
  Member& self = members_[static_cast<std::size_t>(rank)];
  TALLY_CHECK(!self.is_running);
  if (self.is_aborted) return;
  self.is_running = true;
  std::vector<Entry> entries(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    entries[i].call = &call;
    if (call.kind == Kind::kSend) {
      self.sends[call.peer].push_back(&entries[i]);
    } else if (call.kind == Kind::kReceive) {
      self.receives[call.peer].push_back(&entries[i]);
    } else {
      self.collectives.push_back(&entries[i]);
    }
  }
  advance();
  const auto is_done = [](const Entry& entry) { return entry.is_done; };
  while (!self.is_aborted && !std::all_of(entries.begin(), entries.end(), is_done))
    changed_.wait(mutex_);
  self.collectives.clear();
  self.sends.clear();
  self.receives.clear();
  self.is_running = false;
  changed_.notify_all();
}

void Clique::abort(int rank) {
  const MutexLock lock(mutex_);
  Member& self = members_[static_cast<std::size_t>(rank)];
  self.is_aborted = true;
  // A rank alone in an operation cannot know whether the others will come.
  const bool some_run = std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.is_running && !member.is_aborted;
  });
  if (some_run && error_ == ncclSuccess) error_ = ncclRemoteError;
  changed_.notify_all();
  while (self.is_running) changed_.wait(mutex_);
}

ncclResult_t Clique::error() {
  const MutexLock lock(mutex_);
  return error_;
}

void Clique::advance() {
  while (advance_collective()) {
  }
  for (int from = 0; from < size_; ++from)
    for (int to = 0; to < size_; ++to)
      while (advance_messages(from, to)) {
      }
}

bool Clique::advance_collective() {
  std::vector<const Call*> calls;
  for (const Member& member : members_) {
    if (member.is_aborted || member.collectives.empty()) return false;
    calls.push_back(member.collectives.front()->call);
    if (!are_same(*calls.front(), *calls.back())) {
      error_ = ncclInvalidUsage;
      return false;
    }
  }
  carry_out(calls);
  for (Member& member : members_) {
    member.collectives.front()->is_done = true;
    member.collectives.pop_front();
  }
  changed_.notify_all();
  return true;
}

bool Clique::advance_messages(int from, int to) {
  Member& sender = members_[static_cast<std::size_t>(from)];
  Member& receiver = members_[static_cast<std::size_t>(to)];
  if (sender.is_aborted || receiver.is_aborted) return false;
  std::deque<Entry*>& sends = sender.sends[to];
  std::deque<Entry*>& receives = receiver.receives[from];
  if (sends.empty() || receives.empty()) return false;
  const Call& sent = *sends.front()->call;
  const Call& received = *receives.front()->call;
  // NCCL then waits forever.
  if (sent.count != received.count || sent.type != received.type) return false;
  std::memcpy(received.to, sent.from, sent.count * size_of(sent.type));
  for (std::deque<Entry*>* const queue : {&sends, &receives}) {
    queue->front()->is_done = true;
    queue->pop_front();
  }
  changed_.notify_all();
  return true;
}

void Clique::carry_out(const std::vector<const Call*>& calls) {
  const Call& first = *calls.front();
  const std::size_t bytes = first.count * size_of(first.type);
  if (bytes == 0) return;
  const auto root = static_cast<std::size_t>(first.peer);
  switch (first.kind) {
    case Kind::kAllReduce: {
      const std::vector<std::byte> sum = reduced(calls, first.count);
      for (const Call* const call : calls) std::memcpy(call->to, sum.data(), bytes);
      return;
    }
    case Kind::kReduceScatter: {
      const std::vector<std::byte> sum = reduced(calls, first.count * calls.size());
      for (std::size_t rank = 0; rank < calls.size(); ++rank)
        std::memcpy(calls[rank]->to, at(sum.data(), rank * bytes), bytes);
      return;
    }
    case Kind::kAllGather: {
      for (const Call* const call : calls)
        for (std::size_t rank = 0; rank < calls.size(); ++rank)
          std::memmove(at(call->to, rank * bytes), calls[rank]->from, bytes);
      return;
    }
    case Kind::kBroadcast: {
      for (const Call* const call : calls) std::memmove(call->to, calls[root]->from, bytes);
      return;
    }
    case Kind::kReduce: {
      const std::vector<std::byte> sum = reduced(calls, first.count);
      std::memcpy(calls[root]->to, sum.data(), bytes);
      return;
    }
    case Kind::kSend:
    case Kind::kReceive:
      break;
  }
  TALLY_UNREACHABLE();
}

}  // namespace tally::nccl::emulation
