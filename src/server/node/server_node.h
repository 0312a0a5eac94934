#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/node/agreement.h"
#include "server/node/jobs.h"
#include "server/part/table.h"
#include "server/part/table_part.h"
#include "server/protocol/node.h"
#include "server/protocol/payloads.h"
#include "server/snapshot/snapshot.h"
#include "server/storage/storage.h"
#include "tally/server.h"

namespace tally::server {

struct ServerNodeOptions {
  ServerInfo self;                       // its id is ignored
  std::int64_t pid = 0;                  // of this process; 0: the directory does not learn it
  std::uint64_t memory_limit_bytes = 0;  // of all tables; 0: none
  std::filesystem::path snapshots;       // folder of snapshots; empty: refuses them
  // The clock of settle(); none: only settle() notices that the process was stopped.
  std::function<TimePoint()> clock = {};
};

// A server: passes each message to its part, installs views in all parts, and runs snapshots in a
// thread of its own, for which the destructor waits. Threads: on_message() may run for different
// peers at once; the other calls come from any thread. A message to a part takes no lock of the
// node.
class ServerNode final : public Node {
 public:
  ServerNode(NodeTransport& transport, const ServerNodeOptions& options, EventSink on_event);

  // Joins at the directory, to which there is a link.
  void join();
  // The directory has removed this server, or has ended: it serves no more.
  bool expelled() const { return expelled_.load(); }
  NodeId id() const { return id_.load(); }

  void on_message(NodeId from, const Message& message) override;
  void on_linked(NodeId peer) override;
  void on_lost(NodeId peer, const Error& why) override;
  void settle(TimePoint now) override;

 private:
  // The place of this server in a slot.
  struct Slot {
    ChainPosition position;
    // It knows all tables that existed when it joined the chain.
    bool is_settled = false;
  };

  // server_node.cc: the lease.
  void look_at_clock(TimePoint now);
  void send_heartbeat();
  // The view in which this server has all parts of its slots; 0: it lacks some in its view.
  std::uint32_t complete_view();
  // The parts of its slots; none while a slot has not settled.
  std::optional<std::vector<const TablePart*>> settled_parts() const TALLY_REQUIRES(structure_);
  void take_heartbeat(const Message& message);

  // server_requests.cc
  void take_refusal(const Message& message);
  bool wait_for_view(NodeId from, const Message& message);
  void dispatch(NodeId from, const Message& message);
  void ask_part(NodeId from, const Message& message);
  void unknown_part(NodeId from, const MessageHeader& header);
  // Whether the request is of a worker of this job; otherwise answers it.
  bool admits(NodeId from, const MessageHeader& request) TALLY_REQUIRES(structure_);
  void define(NodeId from, const Message& message);
  void agree(NodeId from, const Message& message);
  void size(NodeId from, const Message& message);
  void answer(NodeId to, const MessageHeader& request, Outcome outcome,
              std::vector<std::byte> payload = {}, std::uint64_t version = 0);
  void refuse(NodeId to, const MessageHeader& request, const Error& why);
  void send_agreed(const Agreement::Answers& answers);

  // server_snapshots.cc
  void snapshot(NodeId from, const Message& message);
  void restore(NodeId from, const Message& message);
  using PartDone = std::function<void(const Result<void>&)>;
  // `job` calls end_job().
  void run_job(NodeId from, const MessageHeader& request, std::function<void()> job);
  void end_job(NodeId from, const MessageHeader& request,
               const Result<std::vector<std::byte>>& done);
  Result<std::vector<std::byte>> write_snapshot(const std::string& name);
  Result<std::vector<std::byte>> drop_snapshot(const std::string& name);
  Result<std::vector<std::byte>> publish(const std::string& name,
                                         const std::vector<SnapshotFile>& files);
  Result<void> read_snapshot(const SnapshotRestoration& asked,
                             std::function<void(const Result<void>&)> when_safe);
  Result<void> read_parts(const SnapshotReader& reader, const TableConfig& config,
                          std::span<TablePart* const> parts, const PartDone& one_done);
  std::vector<Table*> all_tables() const;

  // server_view.cc
  void take_view(const Message& message);
  void install(View next) TALLY_REQUIRES(structure_);
  ChainPosition position_in(const View& next, std::uint32_t slot) const TALLY_REQUIRES(structure_);
  void connect_neighbours(const View& next, const std::vector<Slot>& slots)
      TALLY_REQUIRES(structure_);
  void report_lost(const View& before) TALLY_REQUIRES(structure_);
  void admit(std::uint32_t number);
  void become_expelled(const std::string& why) TALLY_REQUIRES(structure_);
  void queue_fills() TALLY_REQUIRES(structure_);
  void pump_fills();
  Result<void> add_table(TableId id, const TableSpec& spec) TALLY_REQUIRES(structure_);
  void send_listing(std::uint32_t slot, bool all) TALLY_REQUIRES(structure_);
  void send_spec(NodeId to, std::uint32_t slot, const Table& table, std::uint8_t flags)
      TALLY_REQUIRES(structure_);
  void take_spec(NodeId from, const Message& message);
  void say(const std::string& sentence) const;

  NodeTransport& transport_;
  const ServerNodeOptions options_;
  const EventSink on_event_;
  MemoryBudget budget_;
  NewestSnapshot newest_snapshot_;
  std::atomic<std::int64_t> fill_bytes_{0};
  DeferredParts deferred_parts_;
  std::atomic<std::uint64_t> failed_records_{0};
  const PartContext context_;

  std::atomic<NodeId> id_{kNoNode};
  std::atomic<bool> expelled_{false};
  // kJoin is sent. The directory tells a sender of earlier heartbeats that it is no member.
  std::atomic<bool> has_joined_{false};
  std::atomic<std::uint32_t> view_number_{0};
  std::atomic<std::uint32_t> admitted_view_{0};  // messages of newer views wait
  // The newest view in which it had all parts, and the value of failed_records_ then.
  std::atomic<std::uint32_t> complete_view_{0};
  std::atomic<std::uint64_t> failed_when_complete_{0};
  std::atomic<std::int64_t> next_heartbeat_{0};  // nanoseconds of the transport's clock
  std::atomic<std::int64_t> last_seen_{0};       // likewise: when it ran last
  std::atomic<std::int64_t> lease_{0};  // nanoseconds that it may be stopped; 0: not known yet
  // The heartbeat that the directory must answer before this server serves; 0: none.
  std::atomic<std::uint64_t> awaited_heartbeat_{0};

  TableSet tables_;

  // Held while tables are added and views installed. Mutexes of parts are taken under it, never the
  // other way round.
  mutable Mutex structure_;
  View view_ TALLY_GUARDED_BY(structure_);
  std::vector<Slot> slots_ TALLY_GUARDED_BY(structure_);
  std::set<NodeId> linked_ TALLY_GUARDED_BY(structure_);
  std::set<NodeId> reached_ TALLY_GUARDED_BY(structure_);
  // The newest view that arrived while a heartbeat is awaited; payload empty: none.
  MessageHeader kept_header_ TALLY_GUARDED_BY(structure_);
  std::vector<std::byte> kept_view_ TALLY_GUARDED_BY(structure_);

  Mutex early_mutex_;
  // Messages that arrived before the view they were sent in.
  std::deque<KeptMessage> early_ TALLY_GUARDED_BY(early_mutex_);
  std::size_t early_bytes_ TALLY_GUARDED_BY(early_mutex_) = 0;
  std::uint64_t heartbeats_asked_ TALLY_GUARDED_BY(early_mutex_) = 0;

  Mutex agreement_mutex_;
  Agreement agreement_ TALLY_GUARDED_BY(agreement_mutex_);
  bool agrees_ TALLY_GUARDED_BY(agreement_mutex_) = false;  // primary of slot 0

  Mutex fills_mutex_;
  std::atomic<bool> has_fills_{false};
  // Parts whose successor needs the whole part.
  std::deque<TablePart*> fills_ TALLY_GUARDED_BY(fills_mutex_);

  JobHistory jobs_;
  JobThread job_thread_;  // last: jobs use the members above
};

}  // namespace tally::server
