#include "server/protocol/view.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "server/protocol/message.h"
#include "wire/bytes.h"

namespace tally::server {
namespace {

constexpr std::size_t kMaxAddressBytes = 512;

void write_server(wire::Writer& writer, const ServerInfo& server) {
  writer.u32(server.id);
  writer.string(server.address);
  writer.string(server.local_name);
  writer.string(server.host);
}

Result<ServerInfo> read_server(wire::Reader& reader) {
  ServerInfo server;
  TALLY_TRY(server.id, reader.u32());
  TALLY_TRY(server.address, reader.string(kMaxAddressBytes));
  TALLY_TRY(server.local_name, reader.string(kMaxAddressBytes));
  TALLY_TRY(server.host, reader.string(kMaxAddressBytes));
  return server;
}

Result<std::uint32_t> read_count(wire::Reader& reader, std::uint32_t limit, const char* what) {
  TALLY_TRY(const std::uint32_t count, reader.u32());
  if (count > limit) return corrupt("view with {} {}, limit {}", count, what, limit);
  return count;
}

Result<std::vector<ServerInfo>> read_servers(wire::Reader& reader) {
  TALLY_TRY(const std::uint32_t count, read_count(reader, kMaxServers, "servers"));
  std::vector<ServerInfo> servers;
  std::vector<NodeId> ids;
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(ServerInfo server, read_server(reader));
    ids.push_back(server.id);
    servers.push_back(std::move(server));
  }
  std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end())
    return corrupt("view that names a server twice");
  return servers;
}

// A chain has servers of the view, each at most once.
Result<std::vector<NodeId>> read_chain(wire::Reader& reader,
                                       const std::vector<ServerInfo>& servers) {
  TALLY_TRY(const std::uint32_t count,
            read_count(reader, static_cast<std::uint32_t>(servers.size()), "servers in a chain"));
  std::vector<NodeId> chain;
  for (std::uint32_t i = 0; i < count; ++i) {
    TALLY_TRY(const NodeId id, reader.u32());
    const bool known = std::any_of(servers.begin(), servers.end(),
                                   [&](const ServerInfo& server) { return server.id == id; });
    if (!known || std::find(chain.begin(), chain.end(), id) != chain.end())
      return corrupt("view whose chain has server {}, unknown or twice", id);
    chain.push_back(id);
  }
  return chain;
}

Result<std::vector<WorkerInfo>> read_workers(wire::Reader& reader) {
  TALLY_TRY(const std::uint32_t count, read_count(reader, kMaxWorkers, "workers"));
  std::vector<WorkerInfo> workers;
  for (std::uint32_t i = 0; i < count; ++i) {
    WorkerInfo worker;
    TALLY_TRY(worker.id, reader.u32());
    TALLY_TRY(worker.rank, reader.i32());
    if (worker.rank < 0 || (!workers.empty() && workers.back().id >= worker.id))
      return corrupt("view whose workers are not in order");
    workers.push_back(worker);
  }
  return workers;
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

std::vector<std::byte> encode(const View& view) {
  wire::Writer writer;
  writer.u32(view.number);
  writer.u32(static_cast<std::uint32_t>(view.servers.size()));
  for (const ServerInfo& server : view.servers) write_server(writer, server);
  writer.u32(static_cast<std::uint32_t>(view.chains.size()));
  for (const std::vector<NodeId>& chain : view.chains) {
    writer.u32(static_cast<std::uint32_t>(chain.size()));
    for (const NodeId id : chain) writer.u32(id);
  }
  writer.u32(static_cast<std::uint32_t>(view.workers.size()));
  for (const WorkerInfo& worker : view.workers) {
    writer.u32(worker.id);
    writer.i32(worker.rank);
  }
  return writer.take();
}

Result<View> decode_view(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  View view;
  TALLY_TRY(view.number, reader.u32());
  TALLY_TRY(view.servers, read_servers(reader));
  TALLY_TRY(const std::uint32_t slots, read_count(reader, kMaxServers, "slots"));
  for (std::uint32_t i = 0; i < slots; ++i) {
    TALLY_TRY(std::vector<NodeId> chain, read_chain(reader, view.servers));
    view.chains.push_back(std::move(chain));
  }
  TALLY_TRY(view.workers, read_workers(reader));
  TALLY_TRY(reader.end());
  return view;
}

std::vector<std::byte> encode(const Joining& joining) {
  wire::Writer writer;
  writer.u8(joining.is_server ? 1 : 0);
  writer.i32(joining.rank);
  write_server(writer, joining.server);
  return writer.take();
}

Result<Joining> decode_joining(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  Joining joining;
  TALLY_TRY(const std::uint8_t is_server, reader.u8());
  if (is_server > 1)
    return corrupt("a node of kind {} joins: neither server nor worker", is_server);
  joining.is_server = is_server == 1;
  TALLY_TRY(joining.rank, reader.i32());
  if (joining.rank < 0) return corrupt("a worker joins with rank {}", joining.rank);
  TALLY_TRY(joining.server, read_server(reader));
  TALLY_TRY(reader.end());
  return joining;
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

bool has_server(const View& view, NodeId server) {
  return std::any_of(view.servers.begin(), view.servers.end(),
                     [&](const ServerInfo& other) { return other.id == server; });
}

bool has_worker(const View& view, NodeId worker) {
  return std::any_of(view.workers.begin(), view.workers.end(),
                     [&](const WorkerInfo& other) { return other.id == worker; });
}

}  // namespace tally::server
