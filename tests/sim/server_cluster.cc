#include "sim/server_cluster.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "group/host.h"
#include "server/node/directory_node.h"
#include "server/node/server_node.h"

namespace tally::sim {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(20);

Rank rank_of(server::NodeId id) { return static_cast<Rank>(id); }
server::NodeId id_of(Rank rank) { return static_cast<server::NodeId>(rank); }

Error killed() { return {.code = ErrorCode::kClosed, .message = "killed by the script"}; }

}  // namespace

std::uint32_t Links::breaks(Rank one, Rank other, TimePoint now) const {
  std::uint32_t count = 0;
  for (const Break& at : breaks_) {
    const bool here = (at.one == one && at.other == other) || (at.one == other && at.other == one);
    if (here && at.at <= now) ++count;
  }
  return count;
}

SimNodeTransport::Peer& SimNodeTransport::peer(Rank rank) {
  const auto [found, is_new] = peers_.try_emplace(rank);
  if (is_new) found->second.breaks = links_.breaks(me_.rank(), rank, me_.clock().now());
  return found->second;
}

void SimNodeTransport::connect(const server::ServerInfo& server) {
  peer(rank_of(server.id)).wanted = true;
}

void SimNodeTransport::disconnect(server::NodeId id) {
  Peer& dropped = peer(rank_of(id));
  dropped.wanted = false;
  dropped.linked = false;
}

void SimNodeTransport::send(server::NodeId to, const server::MessageHeader& header,
                            std::vector<std::byte> payload) {
  send_from(to, header, payload, {});
}

void SimNodeTransport::send_from(server::NodeId to, const server::MessageHeader& header,
                                 std::span<const std::byte> payload, std::span<std::byte>) {
  const Rank rank = rank_of(to);
  const Peer& link = peer(rank);
  if (link.gone) return;
  server::MessageHeader filled = header;
  filled.payload_bytes = static_cast<std::uint32_t>(payload.size());
  if (on_traffic) on_traffic(to, filled, true);
  Letter& letter = letters_.emplace_back();
  letter.to = rank;
  const server::EncodedHeader bytes = server::encode(filled);
  letter.bytes.assign(bytes.begin(), bytes.end());
  letter.bytes.insert(letter.bytes.end(), payload.begin(), payload.end());
  letter.outgoing.header.kind = wire::FrameKind::kData;
  // Until the node has heard of a break it sends on the old link.
  letter.outgoing.header.sequence = link.breaks;
  letter.outgoing.payload = letter.bytes;
  me_.transport().post(rank, letter.outgoing);
}

// No rank shares memory with others here.
void SimNodeTransport::send_written(server::NodeId, const server::MessageHeader&, std::size_t) {
  TALLY_UNREACHABLE();
}

net::Acceptance SimNodeTransport::deliver(Rank from, const wire::FrameHeader& header,
                                          std::span<const std::byte> payload) {
  if (header.kind == wire::FrameKind::kGoodbye) {
    lost(from, {.code = ErrorCode::kPeerLost, .peer = from, .message = "it has left"});
    return net::Acceptance::kTaken;
  }
  Peer& sender = peer(from);
  if (header.offset_bytes == 0) sender.arriving.clear();
  sender.arriving.insert(sender.arriving.end(), payload.begin(), payload.end());
  if (sender.arriving.size() < header.message_bytes) return net::Acceptance::kTaken;
  // A message that was on its way when the link broke is lost.
  break_links();
  if (header.sequence == sender.breaks) take(from, std::exchange(sender.arriving, {}));
  return net::Acceptance::kTaken;
}

void SimNodeTransport::take(Rank from, std::span<const std::byte> bytes) {
  TALLY_CHECK(bytes.size() >= server::kHeaderBytes);
  const auto header = server::decode(bytes.first<server::kHeaderBytes>());
  TALLY_CHECK(header.has_value());
  if (Peer& sender = peer(from); !sender.linked) {
    sender.linked = true;
    node_->on_linked(id_of(from));
  }
  if (on_traffic) on_traffic(id_of(from), *header, false);
  std::span<const std::byte> payload = bytes.subspan(server::kHeaderBytes);
  const std::span<std::byte> place = node_->place(id_of(from), *header);
  if (!place.empty()) {
    TALLY_CHECK(place.size() == payload.size());
    std::copy(payload.begin(), payload.end(), place.begin());
    payload = place;
  }
  node_->on_message(id_of(from), {.header = *header, .payload = payload});
}

void SimNodeTransport::lost(Rank rank, const Error& why) {
  if (why.code == ErrorCode::kClosed && why.peer == me_.rank()) dead_ = true;
  peer(rank).gone = true;
  if (!dead_) tell_lost(rank, why);
}

void SimNodeTransport::tell_lost(Rank rank, const Error& why) {
  peer(rank).linked = false;
  node_->on_lost(id_of(rank), why);
}

void SimNodeTransport::break_links() {
  for (auto& [rank, peer] : peers_) {
    const std::uint32_t breaks = links_.breaks(me_.rank(), rank, me_.clock().now());
    if (breaks == peer.breaks) continue;
    peer.breaks = breaks;
    if (peer.linked && !peer.gone)
      tell_lost(rank, {.code = ErrorCode::kPeerLost, .peer = rank, .message = "the link broke"});
  }
}

void SimNodeTransport::link_wanted() {
  for (auto& [rank, peer] : peers_) {
    if (!peer.wanted || peer.linked || peer.gone) continue;
    peer.linked = true;
    node_->on_linked(id_of(rank));
  }
}

void SimNodeTransport::turn(server::Node& node, Deadline by) {
  node_ = &node;
  break_links();
  link_wanted();
  const bool moved = me_.transport().progress(*this);
  if (!dead_) node.settle(me_.clock().now());
  node_ = nullptr;
  letters_.remove_if([](const Letter& letter) { return letter.outgoing.sent(); });
  if (!moved) me_.transport().wait(earlier(by, me_.clock().after(kTick)));
}

ServedWorker::ServedWorker(Member& me, const Links& links, int rank)
    : me_(me), rank_(rank), transport_(me, links), node_(transport_, {.rank = rank}, {}, [] {}) {}

Result<void> ServedWorker::join() {
  node_.join();
  const Deadline by = me_.deadline();
  while (!node_.joined()) {
    if (is_dead()) return killed();
    if (by.passed(now())) return Error{.code = ErrorCode::kTimeout, .message = "not let in"};
    transport_.turn(node_, by);
  }
  return {};
}

Result<void> ServedWorker::await(server::Ticket ticket) {
  const Deadline by = me_.deadline();
  while (!node_.done(ticket)) {
    if (is_dead()) return killed();
    if (by.passed(now()))
      return Error{.code = ErrorCode::kTimeout, .message = fmt::format("ticket {}", ticket)};
    transport_.turn(node_, by);
  }
  return {};
}

Result<server::Completion> ServedWorker::wait(server::Ticket ticket) {
  TALLY_TRY(await(ticket));
  return node_.take(ticket);
}

Result<server::TableId> ServedWorker::define(const server::TableSpec& spec) {
  const server::Ticket ticket = node_.define(spec);
  TALLY_TRY(await(ticket));
  return node_.take_define(ticket);
}

Result<std::vector<double>> ServedWorker::agree(std::span<const double> values) {
  const server::Ticket ticket = node_.agree(values);
  TALLY_TRY(await(ticket));
  return node_.take_agree(ticket);
}

Result<server::Client::Size> ServedWorker::size(server::TableId table) {
  const server::Ticket ticket = node_.size(table);
  TALLY_TRY(await(ticket));
  return node_.take_size(ticket);
}

Result<void> ServedWorker::sleep(Duration duration) { return sleep_until(now() + duration); }

Result<void> ServedWorker::sleep_until(TimePoint when, const std::function<bool()>& or_until) {
  const Deadline by = Deadline::at(when);
  while (!by.passed(now()) && !(or_until && or_until())) {
    if (is_dead()) return killed();
    transport_.turn(node_, by);
  }
  return {};
}

ServedCluster::ServedCluster(const ServedClusterOptions& options)
    : options_(options),
      links_(options.breaks),
      cluster_({.ranks = 1 + options.servers + options.workers,
                .seed = options.seed,
                .conditions = options.conditions,
                .timeout = options.timeout}) {}

server::EventSink ServedCluster::sink(Member& me) {
  return [this, &me](const std::string& sentence) {
    events_.push_back(fmt::format("{:.6f} rank {}: {}",
                                  static_cast<double>(me.clock().now().count()) * 1e-9, me.rank(),
                                  sentence));
  };
}

Result<void> ServedCluster::be_directory(Member& me) {
  SimNodeTransport transport(me, links_);
  server::DirectoryNode node(transport,
                             {.servers = options_.servers - options_.spares,
                              .replicas = options_.replicas,
                              .silence_limit = options_.silence_limit,
                              .failover_limit = options_.failover_limit},
                             sink(me));
  while (workers_left_ > 0 && !transport.is_dead()) transport.turn(node, Deadline::never());
  return {};
}

Result<void> ServedCluster::be_server(Member& me) {
  SimNodeTransport transport(me, links_);
  server::ServerNode node(transport,
                          {.self = {.address = fmt::format("sim:{}", me.rank()),
                                    .host = options_.servers_live ? *group::host_identity("") : ""},
                           .pid = ::getpid()},
                          sink(me));
  node.join();
  while (workers_left_ > 0 && !transport.is_dead()) transport.turn(node, Deadline::never());
  return {};
}

Result<void> ServedCluster::be_worker(Member& me,
                                      const std::function<Result<void>(ServedWorker&)>& body) {
  const int index = me.rank() - 1 - options_.servers;
  ServedWorker worker(me, links_,
                      options_.worker_ranks.empty()
                          ? index
                          : options_.worker_ranks[static_cast<std::size_t>(index)]);
  Result<void> result = worker.join();
  if (result.has_value()) result = body(worker);
  if (!worker.is_dead()) {
    worker.node().leave();
    // The link to the directory sends it.
    worker.sleep(std::chrono::milliseconds(1)).has_value();
  }
  return result;
}

std::vector<Result<void>> ServedCluster::run(
    const std::function<Result<void>(ServedWorker&)>& body) {
  workers_left_ = options_.workers;
  const Outcome outcome = cluster_.run([&](Member& me) -> Result<void> {
    if (const auto late = late_.find(me.rank()); late != late_.end()) me.sleep(late->second);
    if (me.rank() == kDirectoryRank) return be_directory(me);
    if (me.rank() <= options_.servers) return be_server(me);
    Result<void> result = be_worker(me, body);
    --workers_left_;
    return result;
  });
  ended_ = outcome.ended;
  return {outcome.results.begin() + 1 + options_.servers, outcome.results.end()};
}

}  // namespace tally::sim
