#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "group/host.h"
#include "server/node/directory_node.h"
#include "server/node/server_node.h"
#include "server/testing/test_network.h"
#include "server/testing/test_worker.h"

namespace tally::server::test {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

inline TableSpec dense(const std::string& plan, int workers, std::uint64_t count = 4) {
  return {.name = "weights",
          .count = count,
          .optimizer = sgd({.rate = 1}),
          .plan = plan,
          .workers = workers};
}

inline TableSpec sparse(const std::string& plan, int workers, std::uint32_t dimension = 1) {
  return {.name = "rows",
          .kind = TableKind::kSparse,
          .dimension = dimension,
          .optimizer = sgd({.rate = 1}),
          .plan = plan,
          .workers = workers};
}

// The lowest keys that belong to a part.
inline std::vector<std::uint64_t> keys_of_part(std::uint32_t part, std::uint32_t parts,
                                               std::size_t count) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.size() < count; ++key)
    if (part_of_key(key, parts) == part) keys.push_back(key);
  return keys;
}

// A job: a directory, servers from 1 on, and then workers.
class Cluster {
 public:
  struct Shape {
    int servers = 1;
    int workers = 1;
    int replicas = 0;
    std::uint64_t seed = 1;
    std::filesystem::path snapshots = {};
    std::uint64_t memory_limit_bytes = 0;
    bool is_local = false;  // the directory sees that the processes of the servers live
  };

  explicit Cluster(const Shape& shape) : network(shape.seed), shape_(shape) {
    directory = std::make_unique<DirectoryNode>(
        network.transport(kDirectoryId),
        DirectoryOptions{.servers = shape.servers, .replicas = shape.replicas}, sink());
    network.add(kDirectoryId, directory.get());
    for (int i = 0; i < shape.servers; ++i) add_server();
    network.run();
    for (int i = 0; i < shape.workers; ++i) add_worker(i);
    network.run();
  }

  NodeId add_server() {
    const NodeId id = next_++;
    servers[id] = std::make_unique<ServerNode>(
        network.transport(id),
        ServerNodeOptions{.self = {.address = "host:" + std::to_string(id),
                                   .host = shape_.is_local ? *group::host_identity("") : ""},
                          .pid = ::getpid(),
                          .memory_limit_bytes = shape_.memory_limit_bytes,
                          .snapshots = shape_.snapshots},
        sink());
    network.add(id, servers[id].get());
    servers[id]->on_linked(kDirectoryId);
    servers[id]->join();
    return id;
  }
  Worker& add_worker(int rank) {
    workers.push_back(std::make_unique<Worker>(network, next_++, rank));
    workers.back()->join();
    return *workers.back();
  }
  void kill_server(NodeId id, bool loses_mail = true) {
    network.kill(id, loses_mail);
    servers.erase(id);
  }
  void kill_worker(std::size_t index) { network.kill(workers[index]->id()); }
  TableId define(const TableSpec& spec) {
    for (auto& worker : workers) worker->define(spec);
    network.run();
    return table_id(spec.name);
  }
  Worker& worker(std::size_t index) { return *workers[index]; }
  // True if an event contains `text`.
  bool has_event(const std::string& text) const {
    return std::any_of(events.begin(), events.end(), [&](const std::string& event) {
      return event.find(text) != std::string::npos;
    });
  }
  NodeId primary(TableId table, std::uint32_t part) const {
    const View view = directory->view();
    const auto slots = static_cast<std::uint32_t>(view.chains.size());
    return view.chains[slot_of(table, part, slots)].front();
  }

  Network network;
  std::unique_ptr<DirectoryNode> directory;
  std::map<NodeId, std::unique_ptr<ServerNode>> servers;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::string> events;

 private:
  EventSink sink() {
    return [this](const std::string& event) { events.push_back(event); };
  }
  const Shape shape_;
  NodeId next_ = 1;
};

}  // namespace tally::server::test
