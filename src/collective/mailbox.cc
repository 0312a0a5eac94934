#include "collective/mailbox.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/recorder.h"
#include "kernel/reduce/reduce.h"
#include "wire/error_body.h"

namespace tally::collective {
namespace {

using net::Acceptance;
using wire::FrameHeader;
using wire::FrameKind;

// The limit of early frames; beyond it frames of the peer are held back.
constexpr std::size_t kMaxStashedBytes = std::size_t{64} << 20;

bool is_message(FrameKind kind) { return kind == FrameKind::kData || kind == FrameKind::kPoint; }

}  // namespace

std::string describe(const wire::Signature& signature) {
  return tally::describe(static_cast<Operation>(signature.operation), signature.count,
                         static_cast<DataType>(signature.type),
                         static_cast<ReduceOp>(signature.reduce_op),
                         static_cast<Algorithm>(signature.algorithm), signature.root);
}

Mailbox::Mailbox(net::Router& router, std::uint32_t id, std::vector<Rank> members, Rank self)
    : router_(router),
      id_(id),
      members_(std::move(members)),
      self_(self),
      status_(members_.size()),
      points_sent_(members_.size(), 0),
      departed_(members_.size(), false),
      lost_(members_.size(), false) {
  MutexLock lock(router_.mutex);
  router_.open(id_, *this);
}

Mailbox::~Mailbox() {
  MutexLock lock(router_.mutex);
  router_.close(id_);
  for (Note& note : notes_) {
    if (!note.outgoing.sent())
      router_.transport().withdraw(members_[static_cast<std::size_t>(note.to)], note.outgoing);
  }
}

Rank Mailbox::rank_of(Rank job_rank) const {
  const auto found = std::find(members_.begin(), members_.end(), job_rank);
  return found == members_.end() ? kNoRank : static_cast<Rank>(found - members_.begin());
}

void Mailbox::begin(std::uint32_t sequence, const wire::Signature& signature) {
  running_ = true;
  sequence_ = sequence;
  signature_ = signature;
  waits_for_ = kNoRank;
  for (const Stashed& stashed : stash_) {
    if (stashed.header.kind == FrameKind::kData && stashed.header.sequence == sequence &&
        stashed.header.signature != signature)
      return fail(mismatch(stashed.from, signature, stashed.header.signature));
  }
}

void Mailbox::expect(Incoming& incoming) {
  expected_.push_back(&incoming);
  for (auto stashed = stash_.begin(); stashed != stash_.end() && !incoming.done && !failed();) {
    if (find(stashed->from, stashed->header) != &incoming) {
      ++stashed;
      continue;
    }
    const auto taken = take(incoming, stashed->from, stashed->header, stashed->payload);
    stashed_bytes_ -= sizeof(Stashed) + stashed->payload.size();
    stashed = stash_.erase(stashed);
    if (!taken.has_value()) fail(taken.error());
  }
  if (!incoming.done && departed_[static_cast<std::size_t>(incoming.from)])
    departed(members_[static_cast<std::size_t>(incoming.from)]);
}

void Mailbox::send(Rank to, net::Outgoing& message) {
  message.header.channel = id_;
  router_.transport().post(members_[static_cast<std::size_t>(to)], message);
}

void Mailbox::withdraw(Incoming& incoming) { std::erase(expected_, &incoming); }

void Mailbox::withdraw(Rank to, net::Outgoing& message) {
  router_.transport().withdraw(members_[static_cast<std::size_t>(to)], message);
}

Error Mailbox::told_to_others(const Error& error) const {
  const bool is_own = error.code == ErrorCode::kSystem || error.code == ErrorCode::kExhausted;
  if (!is_own || error.peer != self_) return error;
  return make_error(ErrorCode::kPeerLost, self_, "rank {}: {}", self_, error.message);
}

void Mailbox::fail(const Error& error) {
  if (failure_) return;
  failure_ = error;
  failed_.store(true, std::memory_order_release);
  const std::vector<std::byte> told = wire::encode_error(told_to_others(error));
  for (Rank rank = 0; rank < size(); ++rank) {
    if (rank == self_ || lost_[static_cast<std::size_t>(rank)]) continue;
    note(rank, {.kind = FrameKind::kAbort}, told);
  }
}

void Mailbox::close() {
  if (failure_) return;
  failure_ = make_error(ErrorCode::kClosed, "the communicator was closed");
  failed_.store(true, std::memory_order_release);
}

void Mailbox::ask() {
  for (Rank rank = 0; rank < size(); ++rank) {
    status_[static_cast<std::size_t>(rank)].answered = rank == self_;
    if (rank != self_) note(rank, {.kind = FrameKind::kQuery}, {});
  }
}

void Mailbox::note(Rank to, const FrameHeader& header, std::vector<std::byte> body) {
  notes_.remove_if([](const Note& old) { return old.outgoing.sent(); });
  Note& note = notes_.emplace_back();
  note.to = to;
  note.body = std::move(body);
  note.outgoing.header = header;
  note.outgoing.payload = note.body;
  send(to, note.outgoing);
}

Error Mailbox::mismatch(Rank from, const wire::Signature& mine,
                        const wire::Signature& theirs) const {
  return make_error(ErrorCode::kMismatch, from, "rank {} called {}, rank {} called {}", self_,
                    describe(mine), from, describe(theirs));
}

Incoming* Mailbox::find(Rank from, const FrameHeader& header) {
  for (Incoming* incoming : expected_) {
    if (incoming->done || incoming->from != from || incoming->sequence != header.sequence ||
        incoming->point != (header.kind == FrameKind::kPoint))
      continue;
    if (incoming->point && !incoming->started) {
      if (header.offset_bytes == 0) return incoming;
      continue;
    }
    if (incoming->message == header.step) return incoming;
  }
  return nullptr;
}

std::span<std::byte> Mailbox::place(Rank from, const FrameHeader& header) {
  if (!is_message(header.kind) || failed()) return {};
  const Incoming* incoming = find(rank_of(from), header);
  if (incoming == nullptr || incoming->combine || incoming->signature != header.signature ||
      incoming->bytes != header.message_bytes || incoming->received_bytes != header.offset_bytes)
    return {};
  return {incoming->into + header.offset_bytes, header.payload_bytes};
}

Result<void> Mailbox::take(Incoming& incoming, Rank from, const FrameHeader& header,
                           std::span<const std::byte> payload) {
  if (header.signature != incoming.signature)
    return mismatch(from, incoming.signature, header.signature);
  if (header.message_bytes != incoming.bytes) {
    return make_error(ErrorCode::kMismatch, from, "rank {} sent {} bytes where rank {} expects {}",
                      from, header.message_bytes, self_, incoming.bytes);
  }
  if (header.offset_bytes != incoming.received_bytes) {
    return make_error(ErrorCode::kCorrupt, from,
                      "rank {} sent bytes {}+{} of a message where {} was next", from,
                      header.offset_bytes, header.payload_bytes, incoming.received_bytes);
  }
  std::byte* into = incoming.into + header.offset_bytes;
  if (incoming.combine) {
    kernel::kernels().combine(incoming.type, incoming.op, into, payload.data(),
                              payload.size() / size_of(incoming.type));
  } else if (!payload.empty() && into != payload.data()) {
    std::memcpy(into, payload.data(), payload.size());
  }
  incoming.started = true;
  incoming.message = header.step;
  incoming.received_bytes += payload.size();
  if (incoming.received_bytes == incoming.bytes) {
    incoming.done = true;
    std::erase(expected_, &incoming);
  }
  return {};
}

Acceptance Mailbox::deliver_message(Rank from, const FrameHeader& header,
                                    std::span<const std::byte> payload) {
  if (Incoming* incoming = find(from, header)) {
    if (const auto taken = take(*incoming, from, header, payload); !taken.has_value())
      fail(taken.error());
    return Acceptance::kTaken;
  }
  if (header.kind == FrameKind::kData && running_ && header.sequence == sequence_ &&
      header.signature != signature_) {
    fail(mismatch(from, signature_, header.signature));
    return Acceptance::kTaken;
  }
  // Empty frames take room as well.
  const std::size_t bytes = sizeof(Stashed) + payload.size();
  if (stashed_bytes_ + bytes > kMaxStashedBytes) return Acceptance::kHold;
  stashed_bytes_ += bytes;
  stash_.push_back({from, header, {payload.begin(), payload.end()}});
  return Acceptance::kTaken;
}

void Mailbox::deliver_abort(Rank from, std::span<const std::byte> payload) {
  Error error;
  if (const auto read = wire::decode_error(payload, &error); !read.has_value())
    error = read.error();
  if (error.peer == self_ && error.code == ErrorCode::kMismatch) error.peer = from;
  fail(error);
}

Acceptance Mailbox::deliver(Rank job_rank, const FrameHeader& header,
                            std::span<const std::byte> payload) {
  const Rank from = rank_of(job_rank);
  if (from == kNoRank || failed()) return Acceptance::kTaken;
  PeerStatus& status = status_[static_cast<std::size_t>(from)];
  switch (header.kind) {
    case FrameKind::kData:
      status.entered = std::max(status.entered, header.sequence + 1);
      return deliver_message(from, header, payload);
    case FrameKind::kPoint:
      return deliver_message(from, header, payload);
    case FrameKind::kAbort:
      deliver_abort(from, payload);
      break;
    case FrameKind::kQuery:
      note(from,
           {.kind = FrameKind::kStatus,
            .sequence = sequence_,
            .step = running_ ? static_cast<std::uint32_t>(waits_for_ + 2) : 0,
            .signature = signature_},
           {});
      break;
    case FrameKind::kStatus:
      status = {.entered = std::max(status.entered, header.sequence + (header.step != 0 ? 1U : 0U)),
                .answered = true,
                .running = header.step != 0,
                .sequence = header.sequence,
                .signature = header.signature,
                .waits_for = static_cast<Rank>(header.step) - 2};
      break;
    case FrameKind::kGoodbye:
    case FrameKind::kControl:
      break;
  }
  return Acceptance::kTaken;
}

void Mailbox::lost(Rank job_rank, const Error& why) {
  const Rank peer = rank_of(job_rank);
  if (peer == kNoRank) return;
  lost_[static_cast<std::size_t>(peer)] = true;
  fail({.code = why.code, .peer = peer, .message = why.message});
}

void Mailbox::departed(Rank job_rank) {
  const Rank peer = rank_of(job_rank);
  if (peer == kNoRank) return;
  departed_[static_cast<std::size_t>(peer)] = true;
  for (const Incoming* incoming : expected_) {
    if (incoming->from != peer || incoming->done) continue;
    fail(make_error(ErrorCode::kPeerLost, peer, "rank {} has left the job and is still needed",
                    peer));
    return;
  }
}

}  // namespace tally::collective
