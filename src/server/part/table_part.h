#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "policy/round.h"
#include "server/part/push_history.h"
#include "server/part/push_payload.h"
#include "server/part/replication.h"
#include "server/part/table_config.h"
#include "server/protocol/node.h"
#include "server/snapshot/snapshot.h"
#include "server/storage/storage.h"

namespace tally::server {

class TablePart;

// Parts with pushes that nobody could work off, since others had the part: the next settle() does.
// Threads: safe.
class DeferredParts final {
 public:
  void add(TablePart& part) {
    const MutexLock lock(mutex_);
    parts_.push_back(&part);
  }
  std::vector<TablePart*> take() {
    const MutexLock lock(mutex_);
    return std::exchange(parts_, {});
  }

 private:
  Mutex mutex_;
  std::vector<TablePart*> parts_ TALLY_GUARDED_BY(mutex_);
};

// What the parts of a server share. None of it is a lock that a push takes.
struct PartContext {
  NodeTransport& transport;
  MemoryBudget& budget;
  const NewestSnapshot& snapshot;
  std::atomic<std::int64_t>& fill_bytes;  // under way to servers that are being filled
  DeferredParts& deferred_parts;
};

// Where a server stands in the chain of a slot.
struct ChainPosition {
  enum class Role : std::uint8_t { kNone, kPrimary, kBackup };

  std::uint32_t view = 0;
  Role role = Role::kNone;
  NodeId predecessor = kNoNode;
  NodeId successor = kNoNode;
  // Of a successor that is another one than before.
  Replication::PeerState successor_state = Replication::PeerState::kNone;
  bool is_linked = false;  // to the successor
};

// Flags of kRecord.
inline constexpr std::uint8_t kMoreToCome = 1;
inline constexpr std::uint8_t kSpec = 2;   // payload: the table's TableSpec; `part` is a slot
inline constexpr std::uint8_t kWhole = 4;  // takes the place of all that was there
// With kSpec: the table was there before the receiver was in the slot's chain, and its parts will
// be sent. Alone: these were all.
inline constexpr std::uint8_t kListing = 8;

// One part of a table on one server: its numbers, which updates they get and when, who waits for an
// answer, and the copy on the next server of the chain. The file part_NAME.cc has what NAME says.
// Threads: safe. One gate guards everything; a thread that holds it never waits for anything else.
// With conflict=atomic pushes that commute hold it together, and keep books one by one under
// `mutex_`.
class TablePart final {
 public:
  TablePart(const TableConfig& config, std::uint32_t index, const PartContext& context);

  std::uint32_t slot() const { return slot_; }
  std::uint32_t index() const { return index_; }

  // The numbers are there, as at first. kExhausted where they do not fit.
  Result<void> make_present();
  // A part that is not there was in a listing: it comes by record, and is lost if none comes.
  void await_record();
  // All that were in a listing have been told: if this part is awaited, but not listed, it is as at
  // first.
  Result<void> end_of_listing();
  // Nobody has the part: it is primary and was never sent.
  bool is_lost() const;

  // A new view: the server's place in the chain, and who the workers are.
  void install(const ChainPosition& position, const std::vector<WorkerInfo>& workers);
  void linked(NodeId peer);
  void lost(NodeId peer);

  // Pushes that nobody could work off when they came (it was in PartContext::deferred_parts).
  void run_deferred_pushes();

  // kPush, kPull, kPushPull, kPushAverage, kClock, kReadState, kWriteState, kSetVersion.
  void request(NodeId from, const Message& message);

  void take_record(NodeId from, const Message& message);
  void record_taken(NodeId from, const Message& message);
  bool wants_fill();
  // Whether the successor lacks something that is not yet under way to it.
  bool is_successor_behind();
  // Sends everything to the successor, if it wants it.
  void fill();

  // Adds what this part has, if the server is its primary.
  void add_size(Client::Size& sum);

  // Of the primary: everything, at one moment. Nothing if it is elsewhere.
  struct Copy {
    std::uint64_t version = 0;
    std::vector<std::vector<std::byte>> pieces;
  };
  std::optional<Copy> copy(std::size_t max_piece_bytes);
  bool is_primary() const;
  // The storage takes the place of what is here, if this is the primary; `when_safe` is called,
  // once and under the gate, when all copies have it or with why they never will.
  void replace(std::unique_ptr<Storage> storage, std::uint64_t version,
               std::function<void(const Result<void>&)> when_safe);

 private:
  enum class Presence : std::uint8_t {
    kElsewhere,  // this server is not in the chain
    kAbsent,     // in the chain, but it was not sent yet
    kPresent,
    kLost,  // primary, and it was never sent
  };
  struct Worker {
    PushHistory history;
    std::vector<std::byte> backup;  // values as of its last pull: compensate
  };
  // A request that is not answered yet.
  struct PendingRequest {
    NodeId worker = kNoNode;
    MessageHeader request;
    std::span<std::byte> reply;
    std::vector<std::uint64_t> keys;
    bool wants_values = false;
    bool is_held = false;      // its push waits for a round
    bool had_to_wait = false;  // for others, to read
    bool is_readable = false;
    std::uint64_t mark = 0;  // to be safe first
    Outcome outcome = Outcome::kDone;
    std::uint64_t staleness = 0;
  };
  // A gradient that waits for its round. Of one that was decoded nothing lies elsewhere.
  struct Contribution {
    policy::Offer offer;
    std::uint64_t sequence = 0;
    double weight = 1;
    double rate = 0;
    std::vector<std::byte> owned;  // empty: `payload` lies in the worker's memory
    PartPayload payload;
    std::span<const std::byte> bytes;
  };
  // A push that came while somebody else had the gate: conflict=accumulate.
  struct Deferred {
    NodeId from = kNoNode;
    Message message;
    std::vector<std::byte> owned;
  };
  // A record that is coming in.
  struct IncomingRecord {
    std::uint64_t number = 0;
    bool is_whole = false;
    std::uint64_t pieces_seen = 0;
    std::vector<std::byte> metadata_bytes;
    PartMetadata metadata;
    std::vector<std::vector<std::byte>> pieces;
    // Into numbers that nobody uses yet, as they come: a part that is filled is not in memory
    // twice.
    bool is_taken_at_once = false;
  };
  struct OwedAck {
    std::uint64_t number = 0;
    std::uint64_t mark = 0;
  };

  // part.cc: the gate, and who may ask.
  // Work with the gate for itself, after what came before it while somebody else had the gate.
  template <typename Work>
  void exclusively(Work work) {
    {
      const std::unique_lock lock(gate_);
      run_deferred();
      work();
      proceed();
    }
    drain();
  }
  void run_deferred();
  void drain();
  void defer(NodeId from, const Message& message);
  void handle(NodeId from, const Message& message);
  void handle_admitted(NodeId from, const Message& message, Worker& worker);
  void update_members(const std::vector<WorkerInfo>& workers);
  void leave_primary();
  void keep_held(NodeId worker);
  Result<PartPayload> payload_of(std::span<const std::byte> bytes, bool has_values,
                                 bool check_keys) const;
  Result<PartPayload> pushed_by(const Message& message) const;

  // part_updates.cc: pushes, rounds, and what else changes numbers.
  void push(NodeId from, const Message& message, Worker& worker);
  Result<void> apply_new(NodeId from, const Message& message, PartPayload payload, Worker& worker,
                         PendingRequest& waiting);
  Result<void> offer(NodeId from, const Message& message, PartPayload payload, Worker& worker,
                     PendingRequest& waiting);
  bool make_room(NodeId from, std::uint64_t sequence, Worker& worker) const;
  void hold(const policy::Offer& offer, const Message& message, PartPayload payload);
  void run_due();
  void apply_round(const std::vector<policy::Offer>& counted);
  void settle_held(const policy::Offer& offer, Outcome outcome);
  void drop_held();
  void refuse_held(const policy::Offer& offer, const Error& why);
  std::vector<Contribution>::iterator find_held(const policy::Offer& offer);
  void tell_late(const std::vector<policy::Offer>& counted);
  void write(NodeId from, const Message& message, Worker& worker);
  ApplyOptions apply_options(double rate, std::uint64_t staleness, const Worker* worker) const;
  std::uint64_t touched(std::span<const std::uint64_t> keys);

  // part_atomic.cc: pushes that overlap. False: to be done under the exclusive gate.
  bool push_atomically(NodeId from, const Message& message);

  // part_answers.cc: pulls and answers.
  void pull(NodeId from, const Message& message);
  void read_state(NodeId from, const Message& message);
  void finish(PendingRequest waiting);
  bool is_ready(PendingRequest& waiting) const;
  void answer_ready();
  void answer(PendingRequest& waiting);
  bool has_average_for(const PendingRequest& waiting) const;
  void answer_plain(NodeId to, const MessageHeader& request, Outcome outcome,
                    std::vector<std::byte> payload = {});
  void refuse(NodeId to, const MessageHeader& request, const Error& why);
  MessageHeader answer_header(const MessageHeader& request, Outcome outcome) const;

  // part_records.cc: copies.
  void proceed();
  void send_record(Replication::Next what);
  void send_pieces(std::uint8_t flags, std::vector<std::byte> metadata,
                   std::vector<std::vector<std::byte>> pieces);
  void begin_record(const Message& message);
  void end_record(std::span<const std::byte> last_piece, bool has_piece);
  void take_or_keep(const Message& message);
  bool passes_on() const;
  Result<void> ensure_storage();
  Result<void> take_pieces(std::span<const std::byte> last_piece, bool has_piece);
  void refuse_record(NodeId to, const MessageHeader& record, const Error& why);
  void answer_record(NodeId to, const MessageHeader& record, Outcome outcome,
                     std::vector<std::byte> payload = {});
  void forget_sent();
  void end_fill();

  const TableConfig& config_;
  const std::uint32_t index_;
  const std::uint32_t slot_;
  const PartContext context_;

  mutable std::shared_mutex gate_;
  std::mutex mutex_;
  std::deque<Deferred> deferred_;  // under mutex_
  std::atomic<bool> has_deferred_{false};
  std::atomic<bool> is_in_deferred_parts_{false};

  ChainPosition position_;
  Presence presence_ = Presence::kElsewhere;
  bool is_listed_ = false;
  std::unique_ptr<Storage> storage_;
  std::size_t value_bytes_ = 0;  // dense
  policy::Round round_;
  std::map<NodeId, Worker> workers_;
  std::uint64_t dropped_ = 0;
  std::vector<Contribution> held_;
  // The version that storage_'s average has led to, as long as nothing else has changed since; 0:
  // none. Copies do not have it.
  std::uint64_t average_version_ = 0;
  std::vector<PendingRequest> waiting_;
  // By mark.
  std::vector<std::pair<std::uint64_t, std::function<void(const Result<void>&)>>> when_safe_;

  Replication replication_;
  std::vector<std::uint64_t> touched_keys_;  // since the last record
  bool values_changed_ = false;
  std::vector<std::uint64_t> sent_keys_;  // of the record under way
  bool values_sent_ = false;
  bool passed_on_ = false;        // the record under way is the predecessor's
  std::optional<Error> refusal_;  // of the successor: it could not take the last record
  std::int64_t fill_bytes_ = 0;   // of the record under way, if it is counted
  NodeId told_spec_ = kNoNode;
  std::optional<IncomingRecord> incoming_;
  std::optional<OwedAck> owed_ack_;  // an answer to the predecessor
};

}  // namespace tally::server
