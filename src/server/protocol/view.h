#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/protocol/message.h"
#include "tally/error.h"

namespace tally::server {

struct ServerInfo {
  NodeId id = kNoNode;
  std::string address;  // HOST:PORT
  // Local socket with an abstract name, for processes on the host `host`; empty: none.
  std::string local_name;
  std::string host;  // identity: boot, network and pid namespace, user

  friend bool operator==(const ServerInfo&, const ServerInfo&) = default;
};

struct WorkerInfo {
  NodeId id = kNoNode;
  std::int32_t rank = 0;

  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};

// The members of the job and the servers of each part, as the directory decides; views have rising
// numbers. Parts are spread over *slots*, as many as the job had servers at first; the servers of a
// slot are a replication chain, the primary first. The parts of an empty chain are lost.
struct View {
  std::uint32_t number = 0;  // 0: none yet
  std::vector<ServerInfo> servers;
  std::vector<std::vector<NodeId>> chains;  // by slot
  std::vector<WorkerInfo> workers;          // by id

  friend bool operator==(const View&, const View&) = default;
};

// Parts of a table lie on consecutive slots from one that depends on the table, so the servers have
// equal numbers of parts, plus or minus one.
std::uint32_t slot_of(std::uint16_t table, std::uint32_t part, std::uint32_t slots);

// The payload of kJoin.
struct Joining {
  bool is_server = false;
  std::int32_t rank = 0;  // of a worker
  ServerInfo server;      // of a server, its id is ignored; of a worker only the host
  std::int64_t pid = 0;   // of the process, on server.host; 0: unknown
};

std::vector<std::byte> encode(const View& view);
std::vector<std::byte> encode(const Joining& joining);
// kCorrupt for anything that encode() would not make; at most 4096 servers and 65536 workers.
Result<View> decode_view(std::span<const std::byte> bytes);
Result<Joining> decode_joining(std::span<const std::byte> bytes);

// Transitions between views. Each returns the next view, with the next number, or `before` where
// nothing changes.

// The first view: slot s has the servers s, s+1, ... in the order given, `replicas` of them or all.
// `replicas` 0: two.
View founding_view(std::vector<ServerInfo> servers, const std::vector<WorkerInfo>& workers,
                   int replicas);

// The copies of each part in a job that starts with `servers`.
int copies(int replicas, int servers);

// Appends a new server to the chains that are shorter than `copies` and not empty.
View with_server(const View& before, const ServerInfo& server, int copies);

// Removes a server from all chains. Chains that are too short then, and not empty, get another
// server at their end: the one that is in the fewest chains, then the lowest number.
View without_server(const View& before, NodeId server, int copies);

// Adds a worker; it replaces a worker of the same rank.
View with_worker(const View& before, const WorkerInfo& worker);
View without_worker(const View& before, NodeId worker);

bool contains(const std::vector<NodeId>& chain, NodeId server);
bool has_server(const View& view, NodeId server);
bool has_worker(const View& view, NodeId worker);

}  // namespace tally::server
