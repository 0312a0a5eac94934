#include "server/node/directory_node.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "group/report.h"
#include "group/reporter.h"
#include "server/link/socket_transport.h"
#include "wire/error_body.h"

namespace tally::server {
namespace {

constexpr Duration kSilenceLimit = std::chrono::seconds(5);

std::string with_address(const ServerInfo& server) {
  return server.address.empty() ? fmt::format("server {}", server.id)
                                : fmt::format("server {} ({})", server.id, server.address);
}

}  // namespace

DirectoryNode::DirectoryNode(NodeTransport& transport, const DirectoryOptions& options,
                             EventSink on_event)
    : transport_(transport),
      options_(options),
      limits_{.silence = options.silence_limit.count() > 0 ? Duration(options.silence_limit)
                                                           : kSilenceLimit,
              .waits_for_living = options.silence_limit.count() == 0,
              .failover = options.failover_limit},
      on_event_(std::move(on_event)) {}

void DirectoryNode::on_message(NodeId from, const Message& message) {
  const MutexLock lock(mutex_);
  hear(from);
  switch (message.header.kind) {
    case MessageKind::kJoin:
      join(from, message.payload);
      break;
    case MessageKind::kLeave:
      remove(from, "it left");
      break;
    case MessageKind::kHeartbeat:
      // The sender was removed and does not know it, or asks whether it was.
      if (!members_.contains(from)) {
        if (view_.number > 0) send_view(from);
        break;
      }
      members_[from].complete_view = message.header.version;
      if (message.header.sequence != 0) {
        transport_.send(from,
                        {.kind = MessageKind::kHeartbeat, .sequence = message.header.sequence}, {});
      }
      break;
    default:
      break;
  }
}

void DirectoryNode::hear(NodeId from) {
  const auto found = members_.find(from);
  if (found == members_.end()) return;
  Member& member = found->second;
  if (std::exchange(member.is_reported, false))
    say(fmt::format("{} is heard of again after {}", name_of(from),
                    group::seconds_text(now_ - member.heard)));
  member.heard = now_;
}

std::string DirectoryNode::name_of(NodeId member) const {
  for (const WorkerInfo& worker : view_.workers)
    if (worker.id == member) return fmt::format("the worker of rank {}", worker.rank);
  return fmt::format("server {}", member);
}

void DirectoryNode::on_lost(NodeId peer, const Error& why) {
  const MutexLock lock(mutex_);
  remove(peer, why.message);
}

void DirectoryNode::settle(TimePoint now) {
  const MutexLock lock(mutex_);
  // Times before the first call are unknown. If this process was stopped, messages of that time are
  // still unread: such a gap does not count as silence.
  const bool is_first = now_ == TimePoint::zero();
  const Duration gap = now - std::exchange(now_, now);
  for (auto& [id, member] : members_) {
    if (is_first) member.heard = now;
    if (!is_first && gap > limits_.shortest() / 4) member.heard += gap;
  }
  std::vector<std::pair<NodeId, std::string>> given_up;
  for (auto& [id, member] : members_) {
    const Duration silence = now - member.heard;
    if (silence <= limits_.shortest()) continue;
    const SilentMember silent{
        .silence = silence, .lives = member.process.lives(), .is_copied = is_copied(id)};
    const SilenceVerdict verdict = judge(silent, limits_);
    if (verdict == SilenceVerdict::kGiveUp) {
      const bool fails_over = limits_.waits_for_living && silent.lives;
      const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(
          fails_over ? limits_.failover : limits_.silence);
      given_up.emplace_back(
          id, fmt::format("it was silent for {} ms{}", limit.count(),
                          fails_over ? ", and other servers have its parts; its process lives and "
                                       "serves no more when it resumes"
                                     : ""));
    } else if (verdict == SilenceVerdict::kWait && !std::exchange(member.is_reported, true)) {
      say(fmt::format("{} has been silent for {}; its process lives, the job waits for it",
                      name_of(id), group::seconds_text(silence)));
    }
  }
  for (const auto& [id, why] : given_up) {
    remove(id, why);
    send_view(id);
  }
}

bool DirectoryNode::is_copied(NodeId server) const {
  if (view_.number == 0 || !has_server(view_, server)) return false;
  for (const std::vector<NodeId>& chain : view_.chains) {
    if (!contains(chain, server)) continue;
    // The first that is heard of is the primary of the slot, or becomes it when the silent ones
    // before it are given up as well.
    const auto next =
        std::find_if(chain.begin(), chain.end(), [&](NodeId other) TALLY_REQUIRES(mutex_) {
          return other != server && now_ - members_.at(other).heard <= limits_.shortest();
        });
    if (next == chain.end() || members_.at(*next).complete_view != view_.number) return false;
  }
  return true;
}

void DirectoryNode::join(NodeId from, std::span<const std::byte> payload) {
  const auto joining = decode_joining(payload);
  if (!joining) return refuse(from, joining.error());
  if (members_.contains(from)) {
    if (view_.number > 0) send_view(from);
    return;
  }
  if (view_.servers.size() >= kMaxServers || view_.workers.size() >= kMaxWorkers)
    return refuse(from,
                  make_error(ErrorCode::kExhausted, "the job has {} servers and {} workers: full",
                             view_.servers.size(), view_.workers.size()));
  members_[from] = {
      .heard = now_,
      .process = group::LocalProcess(joining->server.host, static_cast<pid_t>(joining->pid))};
  if (joining->is_server) {
    ServerInfo server = joining->server;
    server.id = from;
    say(fmt::format("{} joined", with_address(server)));
    if (members_[from].process.known()) local_servers_[joining->pid] = from;
    if (view_.number > 0) return become(with_server(view_, server, copies_));
    view_.servers.push_back(std::move(server));
    const auto count = static_cast<int>(view_.servers.size());
    if (count < options_.servers) return;
    copies_ = copies(options_.replicas, count);
    view_.number = 1;
    return become(founding_view(view_.servers, view_.workers, options_.replicas));
  }
  const WorkerInfo worker{.id = from, .rank = joining->rank};
  NodeId replaced = kNoNode;
  for (const WorkerInfo& other : view_.workers) {
    if (other.rank != worker.rank) continue;
    replaced = other.id;
    say(fmt::format("another worker takes the place of the worker of rank {}", worker.rank));
    members_.erase(other.id);
  }
  become(with_worker(view_, worker));
  if (view_.number > 0 && replaced != kNoNode) send_view(replaced);
}

void DirectoryNode::refuse(NodeId to, const Error& why) {
  say(fmt::format("member {} was not let in: {}", to, why.message));
  transport_.send(
      to, {.kind = MessageKind::kAnswer, .outcome = Outcome::kRefused, .view = view_.number},
      wire::encode_error(why));
}

void DirectoryNode::remove(NodeId peer, const std::string& why) {
  if (members_.erase(peer) == 0) return;
  for (const WorkerInfo& worker : view_.workers) {
    if (worker.id != peer) continue;
    say(fmt::format("the worker of rank {} is gone: {}", worker.rank, why));
    return become(without_worker(view_, peer));
  }
  say(fmt::format("server {} is gone: {}", peer, why));
  if (view_.number > 0) return become(without_server(view_, peer, copies_));
  std::erase_if(view_.servers, [&](const ServerInfo& server) { return server.id == peer; });
}

void DirectoryNode::become(View next) {
  if (view_.number == 0) {  // not enough servers have joined
    next.number = 0;
    view_ = std::move(next);
    return;
  }
  tell_copies(next);
  view_ = std::move(next);
  for (const ServerInfo& server : view_.servers) send_view(server.id);
  for (const WorkerInfo& worker : view_.workers) send_view(worker.id);
}

// Says which parts lose their last copy, or all copies but one. A server that is new in a chain has
// no copy until it is filled.
void DirectoryNode::tell_copies(const View& next) {
  std::size_t single = 0;
  bool is_copied = true;  // all of them, to another server
  std::set<NodeId> holders;
  for (std::size_t slot = 0; slot < view_.chains.size(); ++slot) {
    const std::vector<NodeId>& before = view_.chains[slot];
    const std::vector<NodeId>& after = next.chains[slot];
    if (!before.empty() && after.empty())
      say(fmt::format("nobody is left who has the parts of slot {}: they were on server {}", slot,
                      fmt::join(before, " and ")));
    std::vector<NodeId> kept = after;
    std::erase_if(kept, [&before](NodeId server) { return !contains(before, server); });
    if (before.size() < 2 || kept.size() != 1) continue;
    ++single;
    holders.insert(kept.front());
    is_copied = is_copied && after.size() > 1;
  }
  if (single == 0) return;
  say(fmt::format("server {}: {} of {} slots have their only copy there until {}",
                  fmt::join(holders, " and "), single, next.chains.size(),
                  is_copied ? "it is copied to another server" : "another server joins"));
}

NodeId DirectoryNode::server_of(std::int64_t pid) const {
  const MutexLock lock(mutex_);
  const auto found = local_servers_.find(pid);
  return found == local_servers_.end() ? kNoNode : found->second;
}

void DirectoryNode::send_view(NodeId to) {
  transport_.send(to,
                  {.kind = MessageKind::kView,
                   .part = to,
                   .view = view_.number,
                   .clock = static_cast<std::uint64_t>(limits_.shortest().count())},
                  encode(view_));
}

void DirectoryNode::say(const std::string& sentence) {
  if (on_event_) on_event_(sentence);
}

class Directory::Impl final {
 public:
  Impl(std::unique_ptr<SocketTransport> socket, const DirectoryOptions& options,
       const EventSink& on_event)
      : transport(std::move(socket)), node(*transport, options, on_event) {
    transport->start(node);
  }
  ~Impl() { transport->stop(); }

  const std::unique_ptr<SocketTransport> transport;
  DirectoryNode node;
};

Result<std::unique_ptr<Directory>> Directory::start(const DirectoryOptions& options,
                                                    EventSink on_event) {
  if (options.servers < 1 || options.servers > 4096 || options.replicas < 0 ||
      options.silence_limit < std::chrono::milliseconds::zero() ||
      options.failover_limit < std::chrono::seconds(1))
    return invalid(
        "a directory has 1 to 4096 servers, limits that are not negative, and a failover limit of "
        "at least 1 s");
  TALLY_TRY(const net::Address listen, group::address_from(options.listen));
  TALLY_TRY(auto transport,
            SocketTransport::make(
                {.role = Role::kDirectory, .listen = listen, .secret = options.secret}, on_event));
  auto impl = std::make_unique<Impl>(std::move(transport), options, on_event);
  return std::unique_ptr<Directory>(new Directory(std::move(impl)));
}

Directory::Directory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Directory::~Directory() = default;
std::string Directory::address() const { return impl_->transport->address(); }
std::uint32_t Directory::server_of(std::int64_t pid) const {
  const NodeId id = impl_->node.server_of(pid);
  return id == kNoNode ? 0 : id;
}

}  // namespace tally::server
