#include "server/client/client_node.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/protocol/payloads.h"
#include "server/storage/storage.h"

namespace tally::server {

ClientNode::ClientNode(NodeTransport& transport, ClientNodeOptions options, EventSink on_event,
                       std::function<void()> on_progress)
    : transport_(transport),
      options_(std::move(options)),
      on_event_(std::move(on_event)),
      on_progress_(std::move(on_progress)),
      staging_(std::make_shared<StagingPool>(options_.allocate)),
      queues_(pending_, transport, options_.in_flight_bytes) {}

void ClientNode::join() {
  transport_.send(kDirectoryId, {.kind = MessageKind::kJoin},
                  encode(Joining{.is_server = false,
                                 .rank = options_.rank,
                                 .server = {.host = options_.host},
                                 .pid = options_.pid}));
  const MutexLock lock(mutex_);
  has_joined_ = true;
}

void ClientNode::leave() {
  const MutexLock lock(mutex_);
  for (const ServerInfo& server : queues_.view().servers)
    transport_.send(server.id, {.kind = MessageKind::kLeave, .view = queues_.view().number}, {});
  transport_.send(kDirectoryId, {.kind = MessageKind::kLeave}, {});
  closed_ = make_error(ErrorCode::kClosed, "this worker has left");
}

const TableConfig* ClientNode::table(TableId id) const {
  const MutexLock lock(mutex_);
  const auto found = tables_.find(id);
  return found == tables_.end() ? nullptr : &found->second;
}

std::uint32_t ClientNode::parts(TableId id) const {
  const TableConfig* const found = table(id);
  return found == nullptr ? 0 : found->parts;
}

std::size_t ClientNode::part_elements(TableId id) const {
  const TableConfig* const found = table(id);
  return found == nullptr ? 0 : elements_of(found->spec, 0);
}

bool ClientNode::keeps_residual(TableId id) const {
  const TableConfig* const found = table(id);
  return found != nullptr && found->codec != nullptr && found->codec->keeps_residual();
}

std::uint64_t ClientNode::newest_version(TableId table) const {
  const MutexLock lock(mutex_);
  const auto found = newest_version_.find(table);
  return found == newest_version_.end() ? 0 : found->second;
}

Client::Membership ClientNode::membership() const {
  const MutexLock lock(mutex_);
  Client::Membership members;
  for (const WorkerInfo& worker : queues_.view().workers) {
    members.lowest_rank =
        members.workers == 0 ? worker.rank : std::min(members.lowest_rank, worker.rank);
    ++members.workers;
  }
  return members;
}

void ClientNode::abandon(Ticket ticket) {
  std::vector<NodeId> used;
  // Links may still send from its memory until they have ended.
  std::unique_ptr<Request> abandoned;
  {
    const MutexLock lock(mutex_);
    for (const auto& [sequence, subrequest] : pending_.subrequests()) {
      if (subrequest.ticket == ticket && subrequest.state == Subrequest::State::kSent &&
          std::find(used.begin(), used.end(), subrequest.sent_to) == used.end())
        used.push_back(subrequest.sent_to);
    }
    // Forgotten first, so that no subrequest is sent to another server meanwhile.
    abandoned = pending_.forget(ticket);
    if (abandoned == nullptr) return;
  }
  disconnect_all(used, abandoned->staged);
  const MutexLock lock(mutex_);
  for (const NodeId server : used) {
    if (const ServerInfo* info = queues_.renew(server)) transport_.connect(*info);
  }
}

void ClientNode::disconnect_all(std::span<const NodeId> servers,
                                const std::shared_ptr<void>& also) {
  if (servers.empty()) return;
  std::vector<std::shared_ptr<void>> known;
  {
    const MutexLock lock(mutex_);
    known = pending_.staged();
    unreleased_ += static_cast<int>(servers.size());
  }
  if (also) known.push_back(also);
  for (const NodeId server : servers) {
    // The server may know the memory of all open requests: it is not reused before the release.
    transport_.disconnect_then(server, [this, known] {
      {
        const MutexLock lock(mutex_);
        --unreleased_;
      }
      on_progress_();
    });
  }
}

// A server that was removed may resume and write its answer. Requests that continue get new memory
// for their rows, which that server does not know.
void ClientNode::move_replies_from(std::span<const NodeId> servers) {
  for (auto& [sequence, subrequest] : pending_.subrequests()) {
    if (subrequest.state != Subrequest::State::kSent || subrequest.reply.empty() ||
        std::find(servers.begin(), servers.end(), subrequest.sent_to) == servers.end())
      continue;
    Request* request = pending_.request(subrequest.ticket);
    if (request == nullptr || !request->sparse) continue;
    request->sparse->move_reply(subrequest.header.part);
    subrequest.reply = request->sparse->reply(subrequest.header.part);
  }
}

void ClientNode::on_message(NodeId from, const Message& message) {
  switch (message.header.kind) {
    case MessageKind::kView:
      if (from == kDirectoryId) on_view(message);
      break;
    case MessageKind::kAnswer: {
      if (from == kDirectoryId) return close(decode_refusal(message.payload));
      const MutexLock lock(mutex_);
      const std::uint64_t before = pending_.completions();
      on_answer(from, message);
      // A request of many messages wakes its caller once.
      if (pending_.completions() == before) return;
      break;
    }
    case MessageKind::kClosed: {
      const MutexLock lock(mutex_);
      std::uint64_t& newest = newest_version_[message.header.table];
      newest = std::max(newest, message.header.version);
      break;
    }
    default:
      return;  // not for workers
  }
  on_progress_();
}

void ClientNode::on_view(const Message& message) {
  auto view = decode_view(message.payload);
  if (!view.has_value()) return close(std::move(view).error());
  if (!has_worker(*view, message.header.part))
    return close(make_error(ErrorCode::kPeerLost, "the directory has given this worker up"));
  std::vector<NodeId> behind;
  {
    const MutexLock lock(mutex_);
    if (closed_ || view->number <= queues_.view().number) return;
    behind = queues_.leave_behind(*view);
  }
  disconnect_all(behind, nullptr);
  if (!behind.empty() && on_event_)
    on_event_(fmt::format("lost: servers {}; other servers have their parts now",
                          fmt::join(behind, ", ")));
  const MutexLock lock(mutex_);
  const NodeId old_primary = queues_.primary(0);
  move_replies_from(behind);
  queues_.follow(std::move(*view));
  repeat_agreement(old_primary);
  settle_unroutable(0);
  queues_.send();
}

// A new primary knows no agreements: other workers may still wait for one that this worker has.
void ClientNode::repeat_agreement(NodeId old_primary) {
  if (!last_agreement_ || queues_.primary(0) == old_primary) return;
  if (pending_.find(last_agreement_->header.sequence) == nullptr) pending_.repeat(*last_agreement_);
  queues_.disturb();
}

std::span<std::byte> ClientNode::place(NodeId from, const MessageHeader& header) {
  if (header.kind != MessageKind::kAnswer ||
      (header.outcome != Outcome::kDone && header.outcome != Outcome::kDropped))
    return {};
  const MutexLock lock(mutex_);
  const Subrequest* subrequest = pending_.find(header.sequence);
  if (subrequest == nullptr || subrequest->state != Subrequest::State::kSent ||
      subrequest->sent_to != from || subrequest->reply.size() != header.payload_bytes ||
      (subrequest->average != nullptr && header.push_kind == kAverage))
    return {};
  return subrequest->reply;
}

void ClientNode::on_linked(NodeId peer) {
  const MutexLock lock(mutex_);
  queues_.linked(peer);
  queues_.send();
}

void ClientNode::on_lost(NodeId peer, const Error& why) {
  if (peer == kDirectoryId)
    return close(
        make_error(ErrorCode::kPeerLost, "the link to the directory ended: {}", why.message));
  const MutexLock lock(mutex_);
  queues_.lost(peer);
}

// Ends the links before the requests, so that nothing uses the memory of requests afterwards.
void ClientNode::close(const Error& why) {
  std::vector<NodeId> servers;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    closed_ = why;
    servers = queues_.leave_behind({});
  }
  disconnect_all(servers, nullptr);
  {
    const MutexLock lock(mutex_);
    pending_.fail_all(why);
  }
  on_progress_();
}

void ClientNode::settle(TimePoint now) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  queues_.send();
  if (!has_joined_ || now - last_heartbeat_ < kHeartbeatInterval) return;
  last_heartbeat_ = now;
  transport_.send(kDirectoryId, {.kind = MessageKind::kHeartbeat, .view = queues_.view().number},
                  {});
}

}  // namespace tally::server
