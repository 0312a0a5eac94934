#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/client/pending_requests.h"
#include "server/client/server_queues.h"
#include "server/client/sparse_request.h"
#include "server/part/table.h"
#include "server/protocol/node.h"
#include "tally/server.h"

namespace tally::server {

struct ClientNodeOptions {
  int rank = 0;
  std::string host = {};  // as ServerInfo::host
  std::int64_t pid = 0;   // of this process; 0: the directory does not learn it
  std::size_t in_flight_bytes = std::size_t{64} << 20;
  // Allocates memory for sparse messages; servers on this host use memory of the transport without
  // a copy. Empty: the heap.
  Allocate allocate = {};
};

// The logic of a worker. A request is cut into subrequests, one message for each part or server,
// numbered, and sent to the primaries of the newest view. After the loss of a server or its link,
// unanswered subrequests are sent again, in order. A request returns a ticket at once; take()
// returns its result or error. The caller keeps the memory of a request in place until its ticket
// is done or abandoned.
// Threads: safe. The node calls the NodeTransport with its lock held, except disconnect(), so a
// transport must not hold a lock while it calls the node.
class ClientNode final : public Node {
 public:
  using PartRange = Client::PartRange;

  // Calls `on_progress`, without locks, whenever a ticket may be done, and after the first view.
  ClientNode(NodeTransport& transport, ClientNodeOptions options, EventSink on_event,
             std::function<void()> on_progress);

  // Joins at the directory. Requests need joined().
  void join();
  bool joined() const {
    const MutexLock lock(mutex_);
    return queues_.view().number != 0;
  }

  // Why requests fail from now on: the directory refused or removed the worker, or is lost.
  std::optional<Error> closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }

  // Leaves the job: other workers do not wait for this one any more.
  void leave();

  Ticket define(const TableSpec& spec);
  std::uint32_t parts(TableId table) const;
  std::size_t part_elements(TableId table) const;
  bool keeps_residual(TableId table) const;

  Ticket push(const PartRange& range, const PushOptions& options,
              std::span<const std::byte> gradient);
  Ticket pull(const PartRange& range, const PullOptions& options, std::span<std::byte> values);
  Ticket push_pull(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                   std::span<const std::byte> gradient, std::span<std::byte> values);
  Ticket push_encoded(const PartRange& range, const PushOptions& options,
                      Client::Messages gradient);
  Ticket push_pull_encoded(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                           Client::Messages gradient, std::span<std::byte> values);
  Ticket push_average(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                      Client::Messages gradient, std::span<std::byte> values,
                      std::span<Client::Average> averages);
  Ticket push(TableId table, const PushOptions& options, std::span<const std::uint64_t> keys,
              std::span<const float> rows);
  Ticket pull(TableId table, const PullOptions& options, std::span<const std::uint64_t> keys,
              std::span<float> rows);
  Ticket push_pull(TableId table, const PushOptions& push, const PullOptions& pull,
                   std::span<const std::uint64_t> keys, std::span<const float> gradient,
                   std::span<float> rows);
  Ticket measure(TableId table, const Client::MeasureOptions& options,
                 std::span<Client::Measured> parts);
  Ticket finish(TableId table, const Client::FinishOptions& options,
                std::span<Client::Measured> parts);
  Ticket clock(TableId table, std::uint64_t clock);
  Ticket agree(std::span<const double> values);
  Ticket size(TableId table);
  Ticket snapshot(const std::string& name);
  Ticket restore(const std::filesystem::path& snapshot, const std::vector<std::string>& only);
  Ticket read_state(const PartRange& range, int array, std::span<std::byte> state);
  Ticket write_state(const PartRange& range, int array, std::span<const std::byte> state);
  Ticket set_version(TableId table, std::uint64_t version);

  bool done(Ticket ticket) const {
    const MutexLock lock(mutex_);
    return pending_.done(ticket);
  }

  // The result of a ticket that is done, once; kInvalid before. kPeerLost where parts are lost.
  Result<Completion> take(Ticket ticket);
  Result<TableId> take_define(Ticket ticket);
  Result<std::vector<double>> take_agree(Ticket ticket);
  Result<Client::Size> take_size(Ticket ticket);
  Result<std::filesystem::path> take_snapshot(Ticket ticket);
  // Forgets the ticket and renews the links it was sent on. Its pushes may or may not be applied.
  // Afterwards nothing uses its memory, except servers on this host that share allocated memory, as
  // long as awaits_release().
  void abandon(Ticket ticket);
  // Whether a server on this host may still use shared memory of a link that has ended.
  bool awaits_release() const {
    const MutexLock lock(mutex_);
    return unreleased_ > 0;
  }

  std::uint64_t newest_version(TableId table) const;
  Client::Membership membership() const;

  void on_message(NodeId from, const Message& message) override;
  std::span<std::byte> place(NodeId from, const MessageHeader& header) override;
  void on_linked(NodeId peer) override;
  void on_lost(NodeId peer, const Error& why) override;
  void settle(TimePoint now) override;

 private:
  // The common header of the subrequests of a request, and its memory.
  struct Order {
    MessageHeader header;
    std::span<const std::byte> payload;
    std::span<std::byte> reply;
    // By part, instead of `payload`.
    Client::Messages messages = {};
    std::span<Client::Average> averages = {};
  };

  Ticket failed(Error why);
  static Result<void> check_order(const TableConfig& table, const PartRange& range,
                                  const Order& order);
  Ticket submit(std::unique_ptr<Request> request, std::vector<Subrequest> subrequests);
  Ticket ask_parts(const PartRange& range, const Order& order);
  MessageHeader push_header(MessageKind kind, TableId id, const PushOptions& push,
                            const PullOptions& pull = {}) const;
  Ticket ask_sparse(const MessageHeader& header, std::span<const std::uint64_t> keys,
                    std::span<const float> gradient, std::span<float> rows);
  Ticket ask_all_parts(const MessageHeader& header);
  Ticket ask_for_round(const MessageHeader& header, std::span<const double> values,
                       std::span<Client::Measured> parts);
  Ticket ask_servers(const MessageHeader& header, std::vector<std::byte> body);
  std::vector<Subrequest> subrequests_for_servers(const MessageHeader& header,
                                                  std::span<const std::byte> body) const
      TALLY_REQUIRES(mutex_);
  Ticket ask_state(MessageKind kind, const PartRange& range, int array,
                   std::span<const std::byte> payload, std::span<std::byte> reply);
  // Null if the table is not defined.
  const TableConfig* table(TableId id) const;

  void on_view(const Message& message);
  void on_answer(NodeId from, const Message& message) TALLY_REQUIRES(mutex_);
  void take_in(NodeId from, const Subrequest& subrequest, const Message& message, Request& request)
      TALLY_REQUIRES(mutex_);
  void keep_agreement(const Subrequest& subrequest, Request* request) TALLY_REQUIRES(mutex_);
  void on_agree_dropped(Subrequest& subrequest, const MessageHeader& answer) TALLY_REQUIRES(mutex_);
  void settle_for_server(std::uint64_t sequence) TALLY_REQUIRES(mutex_);
  void settle_unroutable(std::uint64_t from) TALLY_REQUIRES(mutex_);
  void go_on_with_snapshot(const Subrequest& subrequest, Request& request) TALLY_REQUIRES(mutex_);
  void publish_snapshot_of(const Subrequest& subrequest, Request& request) TALLY_REQUIRES(mutex_);
  void drop_snapshot_of(const Subrequest& subrequest, Request& request) TALLY_REQUIRES(mutex_);
  void ask_writers(const Subrequest& before, std::uint8_t round, Request& request)
      TALLY_REQUIRES(mutex_);
  void settle_as_lost(const Subrequest& subrequest, const std::string& snapshot)
      TALLY_REQUIRES(mutex_);
  void repeat_agreement(NodeId old_primary) TALLY_REQUIRES(mutex_);
  void close(const Error& why);
  // Ends links, without locks. `also`: memory of a request that is forgotten.
  void disconnect_all(std::span<const NodeId> servers, const std::shared_ptr<void>& also);
  void move_replies_from(std::span<const NodeId> servers) TALLY_REQUIRES(mutex_);
  Error loss(const Request& request) const TALLY_REQUIRES(mutex_);
  Result<std::unique_ptr<Request>> take_request(Ticket ticket);

  NodeTransport& transport_;
  const ClientNodeOptions options_;
  const EventSink on_event_;
  const std::function<void()> on_progress_;
  const std::shared_ptr<StagingPool> staging_;  // shared with the memory taken from it

  mutable Mutex mutex_;
  PendingRequests pending_ TALLY_GUARDED_BY(mutex_);
  ServerQueues queues_ TALLY_GUARDED_BY(mutex_);
  std::map<TableId, TableConfig> tables_ TALLY_GUARDED_BY(mutex_);  // never changed or removed
  std::map<TableId, std::uint64_t> newest_version_ TALLY_GUARDED_BY(mutex_);
  // kJoin is sent. The directory tells a sender of earlier heartbeats that it is no member.
  bool has_joined_ TALLY_GUARDED_BY(mutex_) = false;
  std::optional<Error> closed_ TALLY_GUARDED_BY(mutex_);
  TimePoint last_heartbeat_ TALLY_GUARDED_BY(mutex_){};
  std::string newest_snapshot_ TALLY_GUARDED_BY(mutex_);
  // The last answered agreement. A new primary gets it again, since other workers may lack it.
  std::uint64_t agreements_ TALLY_GUARDED_BY(mutex_) = 0;
  std::optional<Subrequest> last_agreement_ TALLY_GUARDED_BY(mutex_);
  int unreleased_ TALLY_GUARDED_BY(mutex_) = 0;  // links
};

}  // namespace tally::server
