#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "policy/round.h"
#include "server/part/push_history.h"
#include "server/part/push_payload.h"
#include "server/part/replication.h"
#include "server/part/table.h"
#include "server/protocol/node.h"
#include "server/snapshot/snapshot.h"
#include "server/storage/storage.h"

namespace tally::server {

class TablePart;

// Parts with deferred pushes that no thread has run, because another thread held the part's mutex.
// The server runs them in its next settle(). Threads: safe.
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

// Shared by all parts of a server. A push takes none of the locks in here.
struct PartContext {
  NodeTransport& transport;
  MemoryBudget& budget;
  const NewestSnapshot& snapshot;
  std::atomic<std::int64_t>& fill_bytes;  // under way to servers that are being filled
  DeferredParts& deferred_parts;
  std::atomic<std::uint64_t>& failed_records;  // that left a copy unusable, so far
};

// The place of a server in the replication chain of a slot.
struct ChainPosition {
  enum class Role : std::uint8_t { kNone, kPrimary, kBackup };

  std::uint32_t view = 0;
  Role role = Role::kNone;
  NodeId predecessor = kNoNode;
  NodeId successor = kNoNode;
  Replication::PeerState successor_state = Replication::PeerState::kNone;  // of a new successor
  bool is_linked = false;                                                  // to the successor
};

// Flags of kRecord.
inline constexpr std::uint8_t kMoreToCome = 1;
inline constexpr std::uint8_t kSpec = 2;   // payload: the table's TableSpec; `part` is a slot
inline constexpr std::uint8_t kWhole = 4;  // replaces the whole part
// With kSpec: the table is older than the receiver's place in the chain, and its parts follow.
// Alone: the end of the list of such tables.
inline constexpr std::uint8_t kListing = 8;

// One part of a table on one server: the values, the rounds that decide which gradients are
// applied and when, the requests that wait for an answer, and replication to the next server of
// the chain. table_part.cc has requests and answers, table_part_updates.cc pushes,
// table_part_rounds.cc rounds, table_part_records.cc replication.
//
// Threads: safe. mutex_ guards the whole part, and a thread that holds it waits for nothing else.
// With conflict=atomic, pushes that commute hold it shared: they add to the values by atomic
// additions and change the other members under push_mutex_, one at a time.
class TablePart final {
 public:
  TablePart(const TableConfig& config, std::uint32_t index, const PartContext& context);

  std::uint32_t slot() const { return slot_; }
  std::uint32_t index() const { return index_; }

  // Makes the part present with its initial values. kExhausted where they do not fit.
  Result<void> make_present();
  // The predecessor has listed the part: it comes by record, and is lost if no record comes.
  void await_record();
  // The list of tables is complete: a part of the chain that was not listed has its initial values.
  Result<void> end_of_listing();
  // Whether no server has the part: this one is the primary and never received it.
  bool is_lost() const {
    const SharedLock lock(mutex_);
    return presence_ == Presence::kLost;
  }

  // Whether this server has the part, with all acknowledged updates.
  bool is_present() const {
    const SharedLock lock(mutex_);
    return presence_ == Presence::kPresent;
  }

  // A new view: the server's place in the chain, and the workers.
  void install(const ChainPosition& position, const std::vector<WorkerInfo>& workers);
  void linked(NodeId peer);
  void lost(NodeId peer);

  // Runs pushes that were deferred (the part was in PartContext::deferred_parts).
  void run_deferred_pushes();

  // kPush, kPull, kPushPull, kPushAverage, kClock, kReadState, kWriteState, kSetVersion, kMeasure,
  // kFinish.
  void request(NodeId from, const Message& message);

  void take_record(NodeId from, const Message& message);
  void record_taken(NodeId from, const Message& message);
  bool wants_fill() {
    const SharedLock lock(mutex_);
    return presence_ == Presence::kPresent && replication_.wants_everything(position_.view);
  }

  // Whether the successor lacks something that is not yet under way to it.
  bool is_successor_behind();
  // Sends the whole part to the successor, if the successor needs it.
  void fill();

  // Adds the size of this part, if the server is its primary.
  void add_size(Client::Size& sum);

  // The whole part at one moment, if this server is its primary.
  struct Copy {
    std::uint64_t version = 0;
    std::vector<std::vector<std::byte>> pieces;
  };
  std::optional<Copy> copy(std::size_t max_piece_bytes);
  bool is_primary() const {
    const SharedLock lock(mutex_);
    return position_.role == ChainPosition::Role::kPrimary;
  }

  // Replaces the values, if this server is the primary. Calls `when_safe` once, under the part's
  // mutex, when all copies have them, or with the reason why they never will.
  void replace(std::unique_ptr<Storage> storage, std::uint64_t version,
               std::function<void(const Result<void>&)> when_safe);

 private:
  enum class Presence : std::uint8_t {
    kElsewhere,  // this server is not in the chain
    kAbsent,     // in the chain, and the part has not arrived yet
    kPresent,
    kLost,  // primary, and the part never arrived
  };
  struct Worker {
    PushHistory history;
    std::vector<std::byte> backup;  // values of its last pull: stale=compensate
  };
  // A request without an answer so far.
  struct PendingRequest {
    NodeId worker = kNoNode;
    MessageHeader request;
    std::span<std::byte> reply;
    std::vector<std::uint64_t> keys;
    bool wants_values = false;
    bool is_held = false;      // its push waits for a round
    bool had_to_wait = false;  // for other workers, before it may read
    bool is_readable = false;
    std::uint64_t mark = 0;  // the change that must be safe before the answer
    Outcome outcome = Outcome::kDone;
    std::uint64_t staleness = 0;
    double factor = 1;                  // kMeasure: of the mean gradient
    std::optional<Error> refusal = {};  // its round could not be applied
  };
  // A gradient that waits for its round. A decoded gradient owns all its memory.
  struct Contribution {
    policy::Offer offer;
    std::uint64_t sequence = 0;
    double rate = 0;
    std::vector<std::byte> owned;  // empty: `payload` lies in the worker's memory
    PartPayload payload;
    std::span<const std::byte> bytes;
    std::vector<std::byte> backup;  // Worker::backup at the push: the worker reads again meanwhile
    std::uint64_t staleness = 0;    // when it was applied
  };
  // The gradients of a round that is complete.
  struct CompleteRound {
    std::vector<policy::Offer> counted;
    std::vector<std::uint64_t> keys;  // copied, because a lost worker takes its memory with it
  };
  // A record of the predecessor that is not complete.
  struct IncomingRecord {
    std::uint64_t number = 0;
    bool is_whole = false;
    std::uint64_t pieces_seen = 0;
    std::vector<std::byte> metadata_bytes;
    PartMetadata metadata;
    std::vector<std::vector<std::byte>> pieces;
    // Pieces go straight into a storage that is not in use, so that a part that is being filled is
    // not in memory twice.
    bool is_taken_at_once = false;
  };
  // An acknowledgement that the predecessor waits for.
  struct OwedAck {
    std::uint64_t number = 0;
    std::uint64_t mark = 0;
  };

  // Runs `work` with mutex_ held, after the pushes that were deferred before it.
  template <typename Work>
  void exclusively(Work work) {
    {
      const ExclusiveLock lock(mutex_);
      run_deferred();
      work();
      proceed();
    }
    drain();
  }

  void run_deferred() TALLY_REQUIRES(mutex_);
  void drain();
  void defer(NodeId from, const Message& message);
  void handle(NodeId from, const Message& message) TALLY_REQUIRES(mutex_);
  void update_members(const std::vector<WorkerInfo>& workers) TALLY_REQUIRES(mutex_);
  void leave_primary() TALLY_REQUIRES(mutex_);
  void keep_held(NodeId worker) TALLY_REQUIRES(mutex_);
  void pull(NodeId from, const Message& message) TALLY_REQUIRES(mutex_);
  void read_state(NodeId from, const Message& message) TALLY_REQUIRES(mutex_);
  void finish(PendingRequest pending) TALLY_REQUIRES(mutex_);
  bool is_ready(PendingRequest& pending) const TALLY_REQUIRES(mutex_);
  void answer_ready() TALLY_REQUIRES(mutex_);
  void answer(PendingRequest& pending) TALLY_REQUIRES(mutex_);
  bool has_average_for(const PendingRequest& pending) const TALLY_REQUIRES(mutex_);
  void answer_plain(NodeId to, const MessageHeader& request, Outcome outcome,
                    std::vector<std::byte> payload = {}) TALLY_REQUIRES(mutex_);
  void refuse(NodeId to, const MessageHeader& request, const Error& why) TALLY_REQUIRES(mutex_);
  MessageHeader answer_header(const MessageHeader& request, Outcome outcome) const
      TALLY_REQUIRES(mutex_);

  void push(NodeId from, const Message& message, Worker& worker) TALLY_REQUIRES(mutex_);
  Result<void> apply_new(NodeId from, const Message& message, PartPayload payload, Worker& worker,
                         PendingRequest& pending) TALLY_REQUIRES(mutex_);
  Result<void> offer(NodeId from, const Message& message, PartPayload payload, Worker& worker,
                     PendingRequest& pending) TALLY_REQUIRES(mutex_);
  bool make_room(NodeId from, std::uint64_t sequence, Worker& worker) const TALLY_REQUIRES(mutex_);
  void hold(const policy::Offer& offer, const Message& message, PartPayload payload)
      TALLY_REQUIRES(mutex_);
  void run_due() TALLY_REQUIRES(mutex_);
  std::vector<Gradient> gradients_of(const std::vector<policy::Offer>& counted)
      TALLY_REQUIRES(mutex_);
  CompleteRound with_keys(const std::vector<policy::Offer>& counted) TALLY_REQUIRES(mutex_);
  double rate_of(const std::vector<policy::Offer>& counted) TALLY_REQUIRES(mutex_);
  void apply_round(const std::vector<policy::Offer>& counted) TALLY_REQUIRES(mutex_);
  void gather_round(const std::vector<policy::Offer>& counted) TALLY_REQUIRES(mutex_);
  void finish_round() TALLY_REQUIRES(mutex_);
  void end_round(const CompleteRound& round, const Result<void>& applied) TALLY_REQUIRES(mutex_);
  void refuse_round(const std::vector<policy::Offer>& counted, const Error& why)
      TALLY_REQUIRES(mutex_);
  void forget_round() TALLY_REQUIRES(mutex_);
  void measure(NodeId from, const Message& message) TALLY_REQUIRES(mutex_);
  void take_finish(NodeId from, const Message& message) TALLY_REQUIRES(mutex_);
  void refuse_when_safe(PendingRequest pending) TALLY_REQUIRES(mutex_);
  bool has_failed(NodeId worker, std::uint64_t version) const TALLY_REQUIRES(mutex_);
  bool is_measurable(const PendingRequest& pending) const TALLY_REQUIRES(mutex_);
  std::vector<double> measured(const PendingRequest& pending) const TALLY_REQUIRES(mutex_);
  void settle_held(const policy::Offer& offer, Outcome outcome) TALLY_REQUIRES(mutex_);
  void drop_held() TALLY_REQUIRES(mutex_);
  void refuse_held(const policy::Offer& offer, const Error& why) TALLY_REQUIRES(mutex_);
  std::vector<Contribution>::iterator find_held(const policy::Offer& offer) TALLY_REQUIRES(mutex_);
  void tell_late(const std::vector<policy::Offer>& counted) TALLY_REQUIRES(mutex_);
  void write(NodeId from, const Message& message, Worker& worker) TALLY_REQUIRES(mutex_);
  ApplyOptions apply_options(double rate) const TALLY_REQUIRES(mutex_);
  Gradient gradient_of(const policy::Offer& offer, const PartPayload& payload) const
      TALLY_REQUIRES(mutex_);
  bool push_together(const std::deque<KeptMessage>& batch) TALLY_REQUIRES(mutex_);
  std::uint64_t touched(std::span<const std::uint64_t> keys) TALLY_REQUIRES(mutex_);
  bool push_atomically(NodeId from, const Message& message);

  void proceed() TALLY_REQUIRES(mutex_);
  void send_record(Replication::Next what) TALLY_REQUIRES(mutex_);
  void send_pieces(std::uint8_t flags, std::vector<std::byte> metadata,
                   std::vector<std::vector<std::byte>> pieces) TALLY_REQUIRES(mutex_);
  void begin_record(const Message& message) TALLY_REQUIRES(mutex_);
  void end_record(std::span<const std::byte> last_piece, bool has_piece) TALLY_REQUIRES(mutex_);
  void take_or_keep(const Message& message) TALLY_REQUIRES(mutex_);
  bool passes_on() const TALLY_REQUIRES(mutex_);
  Result<void> ensure_storage() TALLY_REQUIRES(mutex_);
  Result<void> take_pieces(std::span<const std::byte> last_piece, bool has_piece)
      TALLY_REQUIRES(mutex_);
  // To the predecessor.
  void refuse_record(std::uint64_t number, const Error& why) TALLY_REQUIRES(mutex_);
  void answer_record(NodeId to, std::uint64_t number, Outcome outcome,
                     std::vector<std::byte> payload = {}) TALLY_REQUIRES(mutex_);
  void forget_sent() TALLY_REQUIRES(mutex_);
  void end_fill() TALLY_REQUIRES(mutex_);

  const TableConfig& config_;
  const std::uint32_t index_;
  const std::uint32_t slot_;
  const PartContext context_;
  const std::size_t value_bytes_;  // dense; 0: sparse

  mutable SharedMutex mutex_;
  Mutex push_mutex_;
  // conflict=accumulate: pushes that arrived while another thread held mutex_.
  std::deque<KeptMessage> deferred_ TALLY_GUARDED_BY(push_mutex_);
  std::atomic<bool> has_deferred_{false};
  std::atomic<bool> is_in_deferred_parts_{false};

  ChainPosition position_ TALLY_GUARDED_BY(mutex_);
  Presence presence_ TALLY_GUARDED_BY(mutex_) = Presence::kElsewhere;
  bool is_listed_ TALLY_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Storage> storage_ TALLY_GUARDED_BY(mutex_);
  policy::Round round_ TALLY_GUARDED_BY(mutex_);
  std::map<NodeId, Worker> workers_ TALLY_GUARDED_BY(mutex_);
  std::uint64_t dropped_ TALLY_GUARDED_BY(mutex_) = 0;
  std::vector<Contribution> held_ TALLY_GUARDED_BY(mutex_);
  // Measured tables. gathered_: the complete round. finish_: how to apply the current round.
  // finished_: how the last round was applied. failure_: why the current round could not be.
  std::optional<CompleteRound> gathered_ TALLY_GUARDED_BY(mutex_);
  std::optional<Finish> finish_ TALLY_GUARDED_BY(mutex_);
  std::optional<Finish> finished_ TALLY_GUARDED_BY(mutex_);
  std::optional<RoundFailure> failure_ TALLY_GUARDED_BY(mutex_);
  // The version that storage_->average() led to, until another change; 0: none. Not replicated.
  std::uint64_t average_version_ TALLY_GUARDED_BY(mutex_) = 0;
  std::vector<PendingRequest> pending_ TALLY_GUARDED_BY(mutex_);
  // By mark.
  std::vector<std::pair<std::uint64_t, std::function<void(const Result<void>&)>>> when_safe_
      TALLY_GUARDED_BY(mutex_);

  Replication replication_ TALLY_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> touched_keys_ TALLY_GUARDED_BY(mutex_);  // since the last record
  bool values_changed_ TALLY_GUARDED_BY(mutex_) = false;              // likewise
  std::vector<std::uint64_t> sent_keys_ TALLY_GUARDED_BY(mutex_);     // of the record under way
  bool values_sent_ TALLY_GUARDED_BY(mutex_) = false;
  bool passed_on_ TALLY_GUARDED_BY(mutex_) = false;  // the record under way is the predecessor's
  // Why the successor refused the last record.
  std::optional<Error> refusal_ TALLY_GUARDED_BY(mutex_);
  std::int64_t fill_bytes_ TALLY_GUARDED_BY(mutex_) =
      0;  // of the record under way, if it is a fill
  NodeId told_spec_ TALLY_GUARDED_BY(mutex_) = kNoNode;
  std::optional<IncomingRecord> incoming_ TALLY_GUARDED_BY(mutex_);
  std::optional<OwedAck> owed_ack_ TALLY_GUARDED_BY(mutex_);
};

}  // namespace tally::server
