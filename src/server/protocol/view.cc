#include "server/protocol/view.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "wire/fields.h"

namespace tally::server {

using wire::FieldsOf;

namespace {

constexpr std::size_t kMaxAddressBytes = 512;

// Servers and workers are there once each, and chains have servers of the view.
Result<void> check(const View& view) {
  std::set<NodeId> servers;
  for (const ServerInfo& server : view.servers)
    if (!servers.insert(server.id).second) return corrupt("view that names a server twice");
  for (const std::vector<NodeId>& chain : view.chains) {
    std::set<NodeId> seen;
    for (const NodeId id : chain)
      if (!servers.contains(id) || !seen.insert(id).second)
        return corrupt("view whose chain has server {}, unknown or twice", id);
  }
  for (std::size_t i = 0; i < view.workers.size(); ++i)
    if (view.workers[i].rank < 0 || (i > 0 && view.workers[i - 1].id >= view.workers[i].id))
      return corrupt("view whose workers are not in order");
  return {};
}

template <typename Info>
bool has_id(const std::vector<Info>& infos, NodeId id) {
  return std::any_of(infos.begin(), infos.end(), [&](const Info& info) { return info.id == id; });
}

std::size_t places_of(const View& view, NodeId server) {
  return static_cast<std::size_t>(
      std::count_if(view.chains.begin(), view.chains.end(),
                    [&](const auto& chain) { return contains(chain, server); }));
}

// The server to append to a chain; kNoNode if all are in it.
NodeId next_copy(const View& view, const std::vector<NodeId>& chain) {
  NodeId best = kNoNode;
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const ServerInfo& server : view.servers) {
    if (contains(chain, server.id)) continue;
    const std::size_t places = places_of(view, server.id);
    if (places < fewest || (places == fewest && server.id < best)) {
      fewest = places;
      best = server.id;
    }
  }
  return best;
}

void fill_chains(View& view, int copies) {
  for (std::vector<NodeId>& chain : view.chains) {
    while (!chain.empty() && chain.size() < static_cast<std::size_t>(copies)) {
      const NodeId next = next_copy(view, chain);
      if (next == kNoNode) break;
      chain.push_back(next);
    }
  }
}

void add_worker(std::vector<WorkerInfo>& workers, const WorkerInfo& worker) {
  std::erase_if(workers, [&](const WorkerInfo& other) {
    return other.rank == worker.rank || other.id == worker.id;
  });
  const auto after = std::find_if(workers.begin(), workers.end(),
                                  [&](const WorkerInfo& other) { return other.id > worker.id; });
  workers.insert(after, worker);
}

}  // namespace

std::uint32_t slot_of(std::uint16_t table, std::uint32_t part, std::uint32_t slots) {
  return static_cast<std::uint32_t>((std::uint64_t{table} + part) % slots);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, ServerInfo>& server) {
  f.number(server.id);
  f.text(server.address, kMaxAddressBytes);
  f.text(server.local_name, kMaxAddressBytes);
  f.text(server.host, kMaxAddressBytes);
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, View>& view) {
  f.number(view.number);
  f.list(view.servers, kMaxServers, [&f](auto& server) { fields(f, server); });
  f.list(view.chains, kMaxServers, [&](auto& chain) {
    f.list(chain, view.servers.size(), [&f](auto& id) { f.number(id); });
  });
  f.list(view.workers, kMaxWorkers, [&f](auto& worker) {
    f.number(worker.id);
    f.number(worker.rank);
  });
}

template <typename Fields>
void fields(Fields& f, FieldsOf<Fields, Joining>& joining) {
  f.flag(joining.is_server);
  f.number(joining.rank);
  f.check(joining.rank >= 0, "a worker joins with a negative rank");
  fields(f, joining.server);
  f.number(joining.pid);
}

std::vector<std::byte> encode(const View& view) { return wire::encode_fields(view); }
std::vector<std::byte> encode(const Joining& joining) { return wire::encode_fields(joining); }

Result<View> decode_view(std::span<const std::byte> bytes) {
  TALLY_TRY(View view, wire::decode_fields<View>(bytes));
  TALLY_TRY(check(view));
  return view;
}

Result<Joining> decode_joining(std::span<const std::byte> bytes) {
  return wire::decode_fields<Joining>(bytes);
}

bool contains(const std::vector<NodeId>& chain, NodeId id) {
  return std::find(chain.begin(), chain.end(), id) != chain.end();
}

int copies(int replicas, int servers) {
  if (replicas > 0) return replicas;
  return servers > 1 ? 2 : 1;
}

View founding_view(std::vector<ServerInfo> servers, const std::vector<WorkerInfo>& workers,
                   int replicas) {
  View view{.number = 1, .servers = std::move(servers)};
  const std::size_t count = view.servers.size();
  const auto length =
      std::min(count, static_cast<std::size_t>(copies(replicas, static_cast<int>(count))));
  for (std::size_t slot = 0; slot < count; ++slot) {
    std::vector<NodeId> chain;
    for (std::size_t i = 0; i < length; ++i) chain.push_back(view.servers[(slot + i) % count].id);
    view.chains.push_back(std::move(chain));
  }
  for (const WorkerInfo& worker : workers) add_worker(view.workers, worker);
  return view;
}

View with_server(const View& before, const ServerInfo& server, int copies) {
  if (has_server(before, server.id)) return before;
  View view = before;
  ++view.number;
  view.servers.push_back(server);
  fill_chains(view, copies);
  return view;
}

View without_server(const View& before, NodeId server, int copies) {
  if (!has_server(before, server)) return before;
  View view = before;
  ++view.number;
  std::erase_if(view.servers, [&](const ServerInfo& other) { return other.id == server; });
  for (std::vector<NodeId>& chain : view.chains) std::erase(chain, server);
  fill_chains(view, copies);
  return view;
}

View with_worker(const View& before, const WorkerInfo& worker) {
  if (has_worker(before, worker.id)) return before;
  View view = before;
  ++view.number;
  add_worker(view.workers, worker);
  return view;
}

View without_worker(const View& before, NodeId worker) {
  if (!has_worker(before, worker)) return before;
  View view = before;
  ++view.number;
  std::erase_if(view.workers, [&](const WorkerInfo& other) { return other.id == worker; });
  return view;
}

bool has_server(const View& view, NodeId server) { return has_id(view.servers, server); }

bool has_worker(const View& view, NodeId worker) { return has_id(view.workers, worker); }

}  // namespace tally::server
