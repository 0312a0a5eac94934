#include "server/link/socket_transport.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "group/host.h"
#include "group/reporter.h"
#include "net/local_socket.h"
#include "server/protocol/message.h"

namespace tally::server {
namespace {

std::string identity_of(Role role) {
  if (role == Role::kDirectory) return "tally directory";
  return role == Role::kServer ? "tally server" : "tally worker";
}

// Names are not resolved: a resolver could block for long.
bool is_numeric(const std::string& host) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

// The address for other hosts, where the node listens on all addresses.
Result<std::string> reachable(net::Address bound) {
  if (bound.host == "0.0.0.0" || bound.host == "::") {
    TALLY_TRY(const auto interfaces, group::interface_addresses());
    TALLY_TRY(bound.host, group::choose_address(interfaces, ""));
  }
  return to_string(bound);
}

Result<void> check(const SocketTransportOptions& options) {
  if (options.threads < 1 || options.threads > 256)
    return invalid("{} threads, 1 to 256 make sense", options.threads);
  if (options.transport == TransportKind::kTls && !options.secret)
    return invalid("transport tls needs a secret");
  if (options.transport == TransportKind::kTcp && options.secret)
    return invalid("transport tcp is plain, and there is a secret: that is transport tls");
  if (options.listen && !options.secret && !net::on_loopback(*options.listen))
    return invalid("{} can be reached from other hosts: that needs a secret",
                   to_string(*options.listen));
  return {};
}

}  // namespace

Result<std::unique_ptr<SocketTransport>> SocketTransport::make(
    const SocketTransportOptions& options, EventSink on_event) {
  TALLY_TRY(check(options));
  std::unique_ptr<SocketTransport> transport(new SocketTransport(options, std::move(on_event)));
  TALLY_TRY(transport->open());
  return transport;
}

SocketTransport::SocketTransport(const SocketTransportOptions& options, EventSink on_event)
    : options_(options), on_event_(std::move(on_event)) {}

SocketTransport::~SocketTransport() { stop(); }

Result<void> SocketTransport::open() {
  TALLY_TRY(host_, group::host_identity(""));
  if (options_.role == Role::kDirectory) {
    id_ = kDirectoryId;
    if (::getrandom(token_.data(), token_.size(), 0) != static_cast<ssize_t>(token_.size()))
      return make_error(ErrorCode::kSystem, "no random numbers from the system");
  }
  Connector::Ways ways;
  if (options_.listen) {
    TALLY_TRY(ways.listener, net::Listener::bind(*options_.listen));
    TALLY_TRY(address_, reachable(ways.listener->address()));
    if (options_.role == Role::kServer) {
      TALLY_TRY(local_name_, group::random_name());
      TALLY_TRY(ways.local_listener, net::listen_locally(local_name_));
    }
  }
  TALLY_TRY(ways.streams, net::StreamFactory::make(options_.secret, identity_of(options_.role)));
  TALLY_TRY(connector_, Connector::make(*this, std::move(ways)));
  for (int i = 0; i < options_.threads; ++i) {
    TALLY_TRY(auto loop, EventLoop::make(*this));
    loops_.push_back(std::move(loop));
  }
  return {};
}

void SocketTransport::start(Node& node) {
  TALLY_CHECK(!running_);
  node_ = &node;
  running_ = true;
  for (const auto& loop : loops_) loop->start();
  connector_->start();
}

void SocketTransport::stop() {
  if (!running_) return;
  running_ = false;
  connector_->stop();
  const Deadline by = SteadyClock().after(options_.last_words);
  for (const auto& loop : loops_) loop->stop(by);
  closing_links_.clear();
  std::unordered_map<NodeId, Peer> peers;
  const MutexLock lock(mutex_);
  peers.swap(peers_);
  for (const auto& [id, peer] : peers) {
    for (const auto& link : peer.links) link->close();
  }
}

Result<void> SocketTransport::join(const net::Address& directory, Deadline by) {
  if (!options_.secret && !net::on_loopback(directory))
    return invalid("the directory at {} is on another host: that needs a secret",
                   to_string(directory));
  TALLY_TRY(net::check_loopback(directory));
  TALLY_TRY(const std::vector<net::Endpoint> endpoints, net::resolve(directory));
  const Connector::Target target{
      .id = kDirectoryId, .local_name = {}, .endpoint = endpoints.front()};
  {
    const MutexLock lock(mutex_);
    peers_[kDirectoryId].wanted = target;
  }
  connector_->dial(target);
  mutex_.lock();
  // A refusal is final; any other problem may be over at the next attempt.
  while (!joining_.linked && joining_.last_miss.code != ErrorCode::kRefused &&
         !by.passed(SteadyClock().now()))
    joined_.wait_for(
        mutex_, std::min<Duration>(by.remaining(SteadyClock().now()), std::chrono::seconds(1)));
  const Joining outcome = joining_;
  mutex_.unlock();
  if (outcome.linked) return {};
  connector_->forget(kDirectoryId);
  return make_error(
      outcome.last_miss.code == ErrorCode::kRefused ? ErrorCode::kRefused : ErrorCode::kTimeout,
      "cannot join at the directory {}: {}", to_string(directory), outcome.last_miss.message);
}

ServerInfo SocketTransport::info() const {
  return {.id = kNoNode, .address = address_, .local_name = local_name_, .host = host_};
}

// The local socket of a server on this host where shared memory is allowed, else its TCP address.
Result<Connector::Target> SocketTransport::target_for(const ServerInfo& server) const {
  const bool near = server.host == host_ && !server.local_name.empty();
  const bool memory =
      options_.transport == TransportKind::kAuto || options_.transport == TransportKind::kShm;
  if (near && memory) return Connector::Target{server.id, server.local_name, {}};
  if (options_.transport == TransportKind::kShm)
    return invalid("server {} is on another host: no memory to share", server.id);
  TALLY_TRY(const net::Address address, group::address_from(server.address));
  if (!is_numeric(address.host) || (!options_.secret && !net::on_loopback(address)))
    return invalid("server {} is at {}, where nothing is called", server.id, server.address);
  TALLY_TRY(const std::vector<net::Endpoint> endpoints, net::resolve(address));
  return Connector::Target{server.id, {}, endpoints.front()};
}

void SocketTransport::connect(const ServerInfo& server) {
  auto target = target_for(server);
  if (!target.has_value()) {
    if (on_event_) on_event_(target.error().message);
    return;
  }
  {
    const MutexLock lock(mutex_);
    Peer& peer = peers_[server.id];
    const bool known = peer.wanted.has_value() || !peer.links.empty();
    peer.wanted = *target;
    if (known) return;
  }
  connector_->dial(*std::move(target));
}

void SocketTransport::disconnect_then(NodeId peer, std::function<void()> released) {
  std::vector<std::shared_ptr<Link>> links;
  bool known = false;
  {
    const MutexLock lock(mutex_);
    const auto found = peers_.find(peer);
    known = found != peers_.end();
    if (known) {
      links = std::move(found->second.links);
      peers_.erase(found);
    }
  }
  if (known) connector_->forget(peer);
  for (const auto& link : links) link->close();
  std::vector<std::shared_ptr<Link>> shown;
  for (const auto& link : links)
    if (released && link->local()) shown.push_back(link);
  for (const auto& link : shown) link->shutdown();
  if (shown.empty() && released) std::exchange(released, {})();
  if (links.empty()) return;
  loop_of(peer).post([this, peer, links = std::move(links), shown = std::move(shown),
                      released = std::move(released)] {
    finish(peer, links, make_error(ErrorCode::kClosed, "the link was dropped"));
    if (!shown.empty()) closing_links_.add(shown, released);
  });
}

std::shared_ptr<Link> SocketTransport::sending_link(NodeId to) {
  const MutexLock lock(mutex_);
  const auto found = peers_.find(to);
  if (found == peers_.end() || found->second.links.empty()) return nullptr;
  return found->second.links.front();
}

void SocketTransport::send(NodeId to, const MessageHeader& header, std::vector<std::byte> payload) {
  if (const auto link = sending_link(to)) link->send(header, std::move(payload));
}

void SocketTransport::send_from(NodeId to, const MessageHeader& header,
                                std::span<const std::byte> payload, std::span<std::byte> reply) {
  if (const auto link = sending_link(to)) link->send_from(header, payload, reply);
}

void SocketTransport::send_written(NodeId to, const MessageHeader& header, std::size_t bytes) {
  if (const auto link = sending_link(to)) link->send_written(header, bytes);
}

LinkAnswer SocketTransport::judge(const LinkGreeting& greeting) {
  const MutexLock lock(mutex_);
  const NodeId id = id_.load();
  const LinkVerdict verdict =
      tally::server::judge(greeting, {.role = options_.role, .id = id, .token = token_});
  const bool tell = options_.role == Role::kDirectory && verdict == LinkVerdict::kWelcome;
  return {.verdict = verdict, .id = id, .token = tell ? token_ : Token{}};
}

void SocketTransport::came(std::unique_ptr<net::Stream> socket, const LinkGreeting& greeting) {
  const bool numbers = options_.role == Role::kDirectory;
  hand_over(std::move(socket),
            {.peer = numbers ? next_number_++ : greeting.from,
             .role = greeting.role,
             .dialled = false,
             .backlog_bytes = greeting.role == Role::kWorker ? options_.backlog_bytes : 0});
}

LinkGreeting SocketTransport::greeting_to(NodeId id) {
  const MutexLock lock(mutex_);
  return {.role = options_.role,
          .from = id_.load(),
          .to = id,
          .token = id == kDirectoryId ? Token{} : token_};
}

void SocketTransport::reached(std::unique_ptr<net::Stream> socket, const LinkAnswer& answer) {
  if (answer.id == kDirectoryId) {
    const MutexLock lock(mutex_);
    token_ = answer.token;
  }
  hand_over(std::move(socket),
            {.peer = answer.id,
             .role = answer.id == kDirectoryId ? Role::kDirectory : Role::kServer,
             .dialled = true,
             .backlog_bytes = 0});
}

void SocketTransport::missed(NodeId id, const Error& why) {
  if (id != kDirectoryId) return;
  {
    const MutexLock lock(mutex_);
    joining_.last_miss = why;
  }
  joined_.notify_all();
}

void SocketTransport::turned_away(const std::string& from, const std::string& why) {
  const auto sentence = refusals_.add(from, why, SteadyClock().now());
  if (sentence && on_event_) on_event_(*sentence);
}

void SocketTransport::tick(TimePoint now) {
  if (const auto sentence = refusals_.tick(now); sentence && on_event_) on_event_(*sentence);
  closing_links_.poll();
  node_->settle(now);
}

void SocketTransport::hand_over(std::unique_ptr<net::Stream> socket, const Link::Config& config) {
  const auto link = std::make_shared<Link>(config, std::move(socket), shared_);
  EventLoop& loop = *loops_[assignment_.take(config.peer, config.role, loops_.size())];
  loop.post([this, link] { adopt(link); });
}

void SocketTransport::adopt(const std::shared_ptr<Link>& link) {
  const NodeId id = link->config().peer;
  std::vector<std::shared_ptr<Link>> replaced;
  {
    const MutexLock lock(mutex_);
    if (link->config().dialled && !peers_.contains(id)) return;  // dropped meanwhile
    Peer& peer = peers_[id];
    const bool again = std::any_of(peer.links.begin(), peer.links.end(), [&](const auto& other) {
      return other->config().dialled == link->config().dialled;
    });
    if (again) replaced.swap(peer.links);
  }
  if (!replaced.empty())
    finish(id, replaced, make_error(ErrorCode::kPeerLost, "it has called again"));
  bool first = false;
  {
    const MutexLock lock(mutex_);
    Peer& peer = peers_[id];
    first = peer.links.empty();
    peer.links.push_back(link);
  }
  if (first) node_->on_linked(id);
  loop_of(id).add(link);
  if (id != kDirectoryId || options_.role == Role::kDirectory) return;
  {
    const MutexLock lock(mutex_);
    joining_.linked = true;
  }
  joined_.notify_all();
}

// Runs in the peer's event loop.
void SocketTransport::finish(NodeId peer, const std::vector<std::shared_ptr<Link>>& links,
                             const Error& why) {
  for (const auto& link : links) {
    loop_of(peer).remove(*link);
    link->close();
  }
  node_->on_lost(peer, why);
  for (const auto& link : links) link->forget_regions();
}

void SocketTransport::ended(Link& link) {
  const NodeId id = link.config().peer;
  std::vector<std::shared_ptr<Link>> links;
  std::optional<Connector::Target> again;
  {
    const MutexLock lock(mutex_);
    const auto found = peers_.find(id);
    const bool current = found != peers_.end() &&
                         std::any_of(found->second.links.begin(), found->second.links.end(),
                                     [&](const auto& other) { return other.get() == &link; });
    if (current) {
      links.swap(found->second.links);
      if (id == kDirectoryId) found->second.wanted.reset();
      if (!found->second.wanted) peers_.erase(found);
    }
  }
  if (links.empty()) return loop_of(id).remove(link);  // dropped: its end is on the way
  finish(id, links, link.error());
  {
    // The node may have disconnected it in on_lost().
    const MutexLock lock(mutex_);
    const auto found = peers_.find(id);
    again =
        found != peers_.end() && found->second.links.empty() ? found->second.wanted : std::nullopt;
  }
  if (again) connector_->dial(*again);
}

std::span<std::byte> SocketTransport::place(Link& link, const MessageHeader& header) {
  return node_->place(link.config().peer, header);
}

void SocketTransport::deliver(Link& link, const Message& message) {
  const NodeId from = link.config().peer;
  if (from == kDirectoryId && message.header.kind == MessageKind::kView)
    id_.store(message.header.part);
  node_->on_message(from, message);
}

void SocketTransport::settle() { node_->settle(SteadyClock().now()); }

}  // namespace tally::server
