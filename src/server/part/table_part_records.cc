// Replication of a part to the next server of its chain, by state: a record has the part's metadata
// and the pieces of its values that changed since the last record. It is a series of kRecord
// messages with one `sequence`, counted from 0 in `clock`, the metadata first. The receiver applies
// a record when its last message arrives, passes it on to its own successor, and acknowledges it
// (kRecordTaken) when all servers behind it have it.
#include <algorithm>

#include <fmt/format.h>

#include "server/part/table_part.h"
#include "server/protocol/payloads.h"
#include "server/storage/piece.h"
#include "wire/error_body.h"

namespace tally::server {
namespace {

// Limit of one record.
constexpr std::uint64_t kMaxPieces = 1 << 20;

}  // namespace

// Sends the next record and the answers that are ready. Called after every change, under mutex_.
void TablePart::proceed() {
  if (presence_ == Presence::kPresent) {
    const Replication::Next next = replication_.next(position_.view);
    if (next != Replication::Next::kNothing) send_record(next);
  }
  if (owed_ack_ && (replication_.is_safe(owed_ack_->mark) || refusal_)) {
    const OwedAck owed = *std::exchange(owed_ack_, {});
    if (replication_.is_safe(owed.mark)) {
      answer_record(position_.predecessor, owed.number, Outcome::kDone);
    } else {
      refuse_record(owed.number, *refusal_);
    }
  }
  std::erase_if(when_safe_, [&](const auto& call) TALLY_REQUIRES(mutex_) {
    const bool is_safe = replication_.is_safe(call.first);
    if (is_safe || refusal_) call.second(is_safe ? Result<void>() : Result<void>(*refusal_));
    return is_safe || refusal_;
  });
  answer_ready();
}

void TablePart::send_record(Replication::Next what) {
  const bool is_whole = what == Replication::Next::kEverything;
  PartMetadata metadata{.round = round_.encode(),
                        .dropped = dropped_,
                        .workers = {},
                        .finished = finished_,
                        .failure = failure_};
  for (const auto& [id, worker] : workers_) metadata.workers.emplace(id, worker.history);
  std::sort(touched_keys_.begin(), touched_keys_.end());
  touched_keys_.erase(std::unique(touched_keys_.begin(), touched_keys_.end()), touched_keys_.end());
  std::vector<std::vector<std::byte>> pieces;
  if (is_whole || values_changed_) pieces = storage_->pieces(touched_keys_, is_whole, kPieceBytes);
  sent_keys_ = std::exchange(touched_keys_, {});
  values_sent_ = std::exchange(values_changed_, false);
  passed_on_ = false;
  replication_.send(what, position_.view);
  send_pieces(is_whole ? kWhole : std::uint8_t{0}, encode(metadata), std::move(pieces));
}

// Sends the record that replication_ has just numbered.
void TablePart::send_pieces(std::uint8_t flags, std::vector<std::byte> metadata,
                            std::vector<std::vector<std::byte>> pieces) {
  const NodeId to = replication_.peer();
  refusal_.reset();
  MessageHeader header{.kind = MessageKind::kRecord,
                       .table = config_.id,
                       .view = position_.view,
                       .version = round_.version()};
  if (told_spec_ != to) {
    told_spec_ = to;
    header.push_kind = kSpec;
    header.part = slot_;
    context_.transport.send(to, header, config_.encoded);
  }
  header.part = index_;
  header.sequence = replication_.number_under_way();
  header.push_kind = static_cast<std::uint8_t>(flags | (pieces.empty() ? 0 : kMoreToCome));
  context_.transport.send(to, header, std::move(metadata));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    header.clock = i + 1;
    header.push_kind = static_cast<std::uint8_t>(flags | (i + 1 < pieces.size() ? kMoreToCome : 0));
    context_.transport.send(to, header, std::move(pieces[i]));
  }
}

bool TablePart::is_successor_behind() {
  const SharedLock lock(mutex_);
  return replication_.peer_state() == Replication::PeerState::kUnfilled ||
         replication_.peer_state() == Replication::PeerState::kInDoubt;
}

void TablePart::fill() {
  exclusively([&]() TALLY_REQUIRES(mutex_) {
    if (presence_ != Presence::kPresent || !replication_.wants_everything(position_.view)) return;
    fill_bytes_ = static_cast<std::int64_t>(storage_->bytes());
    context_.fill_bytes.fetch_add(fill_bytes_);
    send_record(Replication::Next::kEverything);
  });
}

void TablePart::end_fill() { context_.fill_bytes.fetch_sub(std::exchange(fill_bytes_, 0)); }

// The record under way may not have arrived: its changes go into the next record.
void TablePart::forget_sent() {
  touched_keys_.insert(touched_keys_.end(), sent_keys_.begin(), sent_keys_.end());
  sent_keys_.clear();
  values_changed_ = values_changed_ || values_sent_;
  values_sent_ = false;
}

void TablePart::take_record(NodeId from, const Message& message) {
  exclusively([&]() TALLY_REQUIRES(mutex_) {
    const MessageHeader& header = message.header;
    if (header.view < position_.view || position_.role != ChainPosition::Role::kBackup ||
        from != position_.predecessor)
      return answer_record(from, header.sequence, Outcome::kNotPrimary);
    if (header.clock == 0) {
      begin_record(message);
      if (incoming_ && (header.push_kind & kMoreToCome) == 0) end_record({}, false);
      return;
    }
    // A refused record was answered at its first message.
    if (!incoming_ || incoming_->number != header.sequence) return;
    if (header.clock != incoming_->pieces_seen + 1 || header.clock > kMaxPieces) {
      incoming_.reset();
      return refuse_record(header.sequence, corrupt("pieces of a record are out of order"));
    }
    ++incoming_->pieces_seen;
    if ((header.push_kind & kMoreToCome) == 0) return end_record(message.payload, true);
    take_or_keep(message);
  });
}

void TablePart::take_or_keep(const Message& message) {
  if (!incoming_->is_taken_at_once) {
    incoming_->pieces.emplace_back(message.payload.begin(), message.payload.end());
    return;
  }
  if (auto taken = storage_->take(message.payload); !taken) {
    incoming_.reset();
    refuse_record(message.header.sequence, taken.error());
  }
}

void TablePart::begin_record(const Message& message) {
  incoming_.reset();
  auto metadata = decode_metadata(message.payload);
  if (!metadata) return refuse_record(message.header.sequence, metadata.error());
  incoming_ = IncomingRecord{.number = message.header.sequence,
                             .is_whole = (message.header.push_kind & kWhole) != 0,
                             .metadata_bytes = {message.payload.begin(), message.payload.end()},
                             .metadata = std::move(*metadata)};
  if (presence_ != Presence::kAbsent || !incoming_->is_whole || passes_on()) return;
  if (auto made = ensure_storage(); !made) {
    incoming_.reset();
    return refuse_record(message.header.sequence, made.error());
  }
  storage_->clear();
  incoming_->is_taken_at_once = true;
}

Result<void> TablePart::ensure_storage() {
  if (storage_ == nullptr) {
    TALLY_TRY(storage_, make_storage(config_.spec, index_, context_.budget));
  }
  return {};
}

// Whether a record goes to the successor as it came.
bool TablePart::passes_on() const {
  return replication_.peer_state() == Replication::PeerState::kInStep &&
         replication_.may_send(position_.view);
}

void TablePart::end_record(std::span<const std::byte> last_piece, bool has_piece) {
  // A record that is passed on is kept until its last piece.
  const bool is_passed_on = passes_on() && !incoming_->is_taken_at_once;
  if (is_passed_on && has_piece) {
    incoming_->pieces.emplace_back(last_piece.begin(), last_piece.end());
    has_piece = false;
  }
  if (auto taken = take_pieces(last_piece, has_piece); !taken) {
    // The values are half changed: they are of no use.
    presence_ = Presence::kAbsent;
    context_.failed_records.fetch_add(1);
    const std::uint64_t number = incoming_->number;
    incoming_.reset();
    return refuse_record(number, taken.error());
  }
  IncomingRecord record = std::move(*incoming_);
  incoming_.reset();
  presence_ = Presence::kPresent;
  dropped_ = record.metadata.dropped;
  finished_ = record.metadata.finished;
  failure_ = std::move(record.metadata.failure);
  for (auto& [id, worker] : workers_) {
    const auto known = record.metadata.workers.find(id);
    worker.history =
        known == record.metadata.workers.end() ? PushHistory() : std::move(known->second);
  }
  owed_ack_ = OwedAck{.number = record.number, .mark = replication_.changed()};
  if (!is_passed_on) return replication_.doubt();
  passed_on_ = true;
  replication_.send(Replication::Next::kChanges, position_.view);
  send_pieces(record.is_whole ? kWhole : std::uint8_t{0}, std::move(record.metadata_bytes),
              std::move(record.pieces));
}

Result<void> TablePart::take_pieces(std::span<const std::byte> last_piece, bool has_piece) {
  average_version_ = 0;
  TALLY_TRY(ensure_storage());
  TALLY_TRY(round_.restore(incoming_->metadata.round));
  if (incoming_->is_whole && !incoming_->is_taken_at_once) storage_->clear();
  for (const std::vector<std::byte>& piece : incoming_->pieces) TALLY_TRY(storage_->take(piece));
  if (has_piece) TALLY_TRY(storage_->take(last_piece));
  return {};
}

void TablePart::record_taken(NodeId from, const Message& message) {
  exclusively([&]() TALLY_REQUIRES(mutex_) {
    const MessageHeader& header = message.header;
    if (from != replication_.peer()) return;
    if (header.outcome == Outcome::kDone) {
      if (!replication_.taken(header.sequence)) return;
      sent_keys_.clear();
      values_sent_ = false;
      return end_fill();
    }
    const bool resend = !passed_on_ && header.outcome == Outcome::kNotPrimary;
    if (!replication_.rejected(header.sequence, header.view, resend)) return;
    forget_sent();
    end_fill();
    if (header.outcome != Outcome::kRefused) return;
    Error why = decode_refusal(message.payload);
    why.message = fmt::format("server {} cannot take a copy: {}", from, why.message);
    // proceed() tells the requests that wait for the copy.
    refusal_ = std::move(why);
    if (owed_ack_) refuse_record(std::exchange(owed_ack_, {})->number, *refusal_);
  });
}

void TablePart::answer_record(NodeId to, std::uint64_t number, Outcome outcome,
                              std::vector<std::byte> payload) {
  context_.transport.send(to,
                          {.kind = MessageKind::kRecordTaken,
                           .outcome = outcome,
                           .table = config_.id,
                           .part = index_,
                           .view = position_.view,
                           .sequence = number,
                           .version = round_.version()},
                          std::move(payload));
}

void TablePart::refuse_record(std::uint64_t number, const Error& why) {
  answer_record(position_.predecessor, number, Outcome::kRefused, wire::encode_error(why));
}

void TablePart::replace(std::unique_ptr<Storage> storage, std::uint64_t version,
                        std::function<void(const Result<void>&)> when_safe) {
  exclusively([&]() TALLY_REQUIRES(mutex_) {
    if (position_.role != ChainPosition::Role::kPrimary)
      return when_safe(
          make_error(ErrorCode::kPeerLost, "part {} has moved to another server", index_));
    storage_ = std::move(storage);
    presence_ = Presence::kPresent;
    drop_held();
    finished_.reset();
    round_.set_version(version);
    values_changed_ = true;
    average_version_ = 0;
    when_safe_.emplace_back(replication_.changed(), std::move(when_safe));
    replication_.doubt();
    run_due();
  });
}

}  // namespace tally::server
