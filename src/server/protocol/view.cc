#include "server/protocol/view.h"

#include <algorithm>

#include <fmt/format.h>

#include "wire/bytes.h"

namespace tally::server {
namespace {

constexpr std::uint32_t kMaxServers = 4096;
constexpr std::uint32_t kMaxWorkers = 65536;
constexpr std::size_t kMaxNameBytes = 512;

Error corrupt(std::string message) {
  return Error{.code = ErrorCode::kCorrupt, .message = std::move(message)};
}

void write(wire::Writer& writer, const ServerInfo& server) {
  writer.u32(server.id);
  writer.string(server.address);
  writer.string(server.local_name);
  writer.string(server.host);
}

Result<ServerInfo> read_server(wire::Reader& reader) {
  ServerInfo server;
  TALLY_TRY(server.id, reader.u32());
  TALLY_TRY(server.address, reader.string(kMaxNameBytes));
  TALLY_TRY(server.local_name, reader.string(kMaxNameBytes));
  TALLY_TRY(server.host, reader.string(kMaxNameBytes));
  return server;
}

Result<std::uint32_t> read_count(wire::Reader& reader, std::uint32_t limit, const char* what) {
  TALLY_TRY(const std::uint32_t count, reader.u32());
  if (count > limit) return corrupt(fmt::format("view with {} {}, limit {}", count, what, limit));
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

// Of servers that the view has, each once.
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
      return corrupt(fmt::format("view whose chain has server {}, unknown or twice", id));
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

}  // namespace

std::uint32_t slot_of(std::uint16_t table, std::uint32_t part, std::uint32_t slots) {
  return static_cast<std::uint32_t>((std::uint64_t{table} + part) % slots);
}

std::vector<std::byte> encode(const View& view) {
  wire::Writer writer;
  writer.u32(view.number);
  writer.u32(static_cast<std::uint32_t>(view.servers.size()));
  for (const ServerInfo& server : view.servers) write(writer, server);
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
  write(writer, joining.server);
  return writer.take();
}

Result<Joining> decode_joining(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  Joining joining;
  TALLY_TRY(const std::uint8_t is_server, reader.u8());
  if (is_server > 1) return corrupt(fmt::format("{} joins: neither server nor worker", is_server));
  joining.is_server = is_server == 1;
  TALLY_TRY(joining.rank, reader.i32());
  if (joining.rank < 0) return corrupt(fmt::format("a worker joins with rank {}", joining.rank));
  TALLY_TRY(joining.server, read_server(reader));
  TALLY_TRY(reader.end());
  return joining;
}

}  // namespace tally::server
