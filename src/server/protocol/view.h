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

// Who is there and who serves what, decided by the directory; each is newer than the one before.
// Parts are dealt over *slots*, as many as there were servers at first; a slot's servers are a
// chain, the primary first. A chain that is empty has lost its parts.
struct View {
  std::uint32_t number = 0;  // 0: none yet
  std::vector<ServerInfo> servers;
  std::vector<std::vector<NodeId>> chains;  // by slot
  std::vector<WorkerInfo> workers;          // by id

  friend bool operator==(const View&, const View&) = default;
};

// Parts of a table lie on consecutive slots, beginning with one by the table's number: so all
// servers have equally many, but for one.
std::uint32_t slot_of(std::uint16_t table, std::uint32_t part, std::uint32_t slots);

// What a node says when it joins.
struct Joining {
  bool is_server = false;
  std::int32_t rank = 0;  // of a worker
  ServerInfo server;      // of a server; its id is not looked at
};

std::vector<std::byte> encode(const View& view);
std::vector<std::byte> encode(const Joining& joining);
// kCorrupt for anything that encode() would not make; at most 4096 servers and 65536 workers.
Result<View> decode_view(std::span<const std::byte> bytes);
Result<Joining> decode_joining(std::span<const std::byte> bytes);

// Who is in which chain: functions of the view before and of what happened. Each gives the next
// view, one number higher; the view before where nothing changes.

// The first view: slot s has the servers s, s+1, ... in the order given, `replicas` of them or all.
// `replicas` 0: two.
View founding_view(std::vector<ServerInfo> servers, const std::vector<WorkerInfo>& workers,
                   int replicas);

// How many copies a job with so many servers at first is to have.
int copies(int replicas, int servers);

// A server came: it is put at the end of chains that are shorter than `copies` and not empty.
View with_server(const View& before, const ServerInfo& server, int copies);

// A server is gone: out of all chains. Those that it leaves too short, but not empty, get another
// at their end: that with the fewest places in chains, of these the one with the lowest number.
View without_server(const View& before, NodeId server, int copies);

// A worker came; one that was there with the same rank goes.
View with_worker(const View& before, const WorkerInfo& worker);
View without_worker(const View& before, NodeId worker);

bool contains(const std::vector<NodeId>& chain, NodeId server);
bool has_server(const View& view, NodeId server);
bool has_worker(const View& view, NodeId worker);

}  // namespace tally::server
