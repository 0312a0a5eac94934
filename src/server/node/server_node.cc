// A server, without the handling of messages, views and snapshots, which have files of their own.
//
// Lease: a server that was stopped for long may have been removed, and other servers have its
// parts. Its answers would be stale, and workers may have reused the memory they lent it for
// answers. So after a pause longer than its lease it sends a numbered heartbeat and serves no
// request until the directory has answered. Until then messages wait as if they belonged to a newer
// view. Views also wait, unless they say that the server was removed.
#include "server/node/server_node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "group/reporter.h"
#include "server/link/socket_transport.h"

namespace tally::server {
namespace {

// Resolution of last_seen_.
constexpr Duration kCloseEnough = std::chrono::milliseconds(1);

}  // namespace

ServerNode::ServerNode(NodeTransport& transport, const ServerNodeOptions& options,
                       EventSink on_event)
    : transport_(transport),
      options_(options),
      on_event_(std::move(on_event)),
      budget_(options.memory_limit_bytes),
      context_{.transport = transport,
               .budget = budget_,
               .snapshot = newest_snapshot_,
               .fill_bytes = fill_bytes_,
               .deferred_parts = deferred_parts_,
               .failed_records = failed_records_} {}

void ServerNode::join() {
  transport_.send(kDirectoryId, {.kind = MessageKind::kJoin},
                  encode(Joining{.is_server = true, .server = options_.self, .pid = options_.pid}));
  has_joined_.store(true);
}

void ServerNode::on_linked(NodeId peer) {
  {
    const MutexLock lock(structure_);
    linked_.insert(peer);
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      ChainPosition& position = slots_[slot].position;
      if (position.successor != peer) continue;
      position.is_linked = true;
      send_listing(slot, false);
    }
    for (const auto& table : tables_.all())
      for (const auto& part : table->parts()) part->linked(peer);
    queue_fills();
  }
  pump_fills();
}

void ServerNode::on_lost(NodeId peer, const Error& why) {
  {
    // Payloads may lie in the peer's memory, and the peer repeats its requests.
    const MutexLock lock(early_mutex_);
    std::erase_if(early_, [&](const KeptMessage& early) TALLY_REQUIRES(early_mutex_) {
      if (early.from == peer) early_bytes_ -= early.owned.size();
      return early.from == peer;
    });
  }
  const MutexLock lock(structure_);
  linked_.erase(peer);
  if (peer == kDirectoryId) return become_expelled(fmt::format("no directory: {}", why.message));
  for (Slot& slot : slots_)
    if (slot.position.successor == peer) slot.position.is_linked = false;
  for (const auto& table : tables_.all())
    for (const auto& part : table->parts()) part->lost(peer);
  const MutexLock agreement_lock(agreement_mutex_);
  agreement_.forget(peer);
}

void ServerNode::settle(TimePoint now) {
  look_at_clock(now);
  std::int64_t due = next_heartbeat_.load();
  if (has_joined_.load() && now.count() >= due &&
      next_heartbeat_.compare_exchange_strong(due, (now + kHeartbeatInterval).count()))
    send_heartbeat();
  for (TablePart* const part : deferred_parts_.take()) part->run_deferred_pushes();
  pump_fills();
}

void ServerNode::say(const std::string& sentence) const {
  if (on_event_) on_event_(sentence);
}

void ServerNode::look_at_clock(TimePoint now) {
  const std::int64_t before = last_seen_.load();
  if (expelled() || now.count() - before < kCloseEnough.count()) return;
  last_seen_.store(now.count());
  const std::int64_t lease = lease_.load();
  if (lease == 0 || before == 0 || now.count() - before <= lease) return;
  {
    const MutexLock lock(early_mutex_);
    awaited_heartbeat_.store(++heartbeats_asked_);
    admitted_view_.store(0, std::memory_order_release);
  }
  send_heartbeat();
}

void ServerNode::send_heartbeat() {
  transport_.send(kDirectoryId,
                  {.kind = MessageKind::kHeartbeat,
                   .view = view_number_.load(),
                   .sequence = awaited_heartbeat_.load(),
                   .version = complete_view()},
                  {});
}

// A server that has all parts keeps them while the view lasts and no record fails, so it looks at
// its parts once. A heartbeat must not wait for a table that is being made: the next one looks
// again.
std::uint32_t ServerNode::complete_view() {
  const std::uint64_t failed = failed_records_.load();
  const std::uint32_t known = complete_view_.load();
  if (known == view_number_.load() && failed_when_complete_.load() == failed) return known;
  if (!structure_.try_lock()) return 0;
  const std::uint32_t view = view_.number;
  const std::optional<std::vector<const TablePart*>> parts = settled_parts();
  structure_.unlock();
  if (!parts) return 0;
  for (const TablePart* const part : *parts)
    if (!part->is_present()) return 0;
  failed_when_complete_.store(failed);
  complete_view_.store(view);
  return view;
}

std::optional<std::vector<const TablePart*>> ServerNode::settled_parts() const {
  if (expelled()) return std::nullopt;
  const auto serves = [this](std::uint32_t slot) TALLY_REQUIRES(structure_) {
    return slots_[slot].position.role != ChainPosition::Role::kNone;
  };
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (serves(slot) && !slots_[slot].is_settled) return std::nullopt;
  std::vector<const TablePart*> served;
  for (const auto& table : tables_.all())
    for (const auto& part : table->parts())
      if (serves(part->slot())) served.push_back(part.get());
  return served;
}

void ServerNode::take_heartbeat(const Message& message) {
  {
    const MutexLock lock(early_mutex_);
    if (message.header.sequence == 0 || message.header.sequence != awaited_heartbeat_.load())
      return;
    awaited_heartbeat_.store(0);
  }
  Message view;
  std::vector<std::byte> payload;
  {
    const MutexLock lock(structure_);
    view.header = kept_header_;
    payload = std::exchange(kept_view_, {});
  }
  view.payload = payload;
  if (!payload.empty()) return take_view(view);
  admit(view_number_.load());
}

class Server::Impl final {
 public:
  Impl(std::unique_ptr<SocketTransport> socket, const ServerOptions& options,
       const EventSink& on_event)
      : transport(std::move(socket)),
        node(*transport,
             {.self = transport->info(),
              .pid = ::getpid(),
              .memory_limit_bytes = options.memory_limit_bytes,
              .snapshots = options.snapshots,
              .clock = [] { return SteadyClock().now(); }},
             on_event) {
    transport->start(node);
  }
  ~Impl() {
    transport->send(kDirectoryId, {.kind = MessageKind::kLeave}, {});
    transport->stop();
  }

  const std::unique_ptr<SocketTransport> transport;
  ServerNode node;
};

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, EventSink on_event) {
  TALLY_TRY(const net::Address directory, group::address_from(options.directory));
  TALLY_TRY(const net::Address listen, group::address_from(options.listen));
  const int threads = options.threads > 0 ? options.threads : std::clamp(usable_cores(), 1, 4);
  TALLY_TRY(
      auto transport,
      SocketTransport::make(
          {.role = Role::kServer, .listen = listen, .secret = options.secret, .threads = threads},
          on_event));
  // Workers send the path of a snapshot back, and may run in other folders.
  ServerOptions absolute = options;
  if (!options.snapshots.empty()) absolute.snapshots = std::filesystem::absolute(options.snapshots);
  auto impl = std::make_unique<Impl>(std::move(transport), absolute, on_event);
  TALLY_TRY(impl->transport->join(directory, Deadline::after(options.join_timeout)));
  impl->node.join();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
std::string Server::address() const { return impl_->transport->address(); }
bool Server::expelled() const { return impl_->node.expelled(); }

}  // namespace tally::server
