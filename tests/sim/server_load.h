#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/server_cluster.h"

// Pushes that can be distinguished from each other in the tables.
namespace tally::sim {

struct LoadOptions {
  int workers = 2;
  int pushes = 25;  // of each worker, to each table
  int dense_tables = 3;
  bool wide = false;       // the first table has several parts
  bool gradients = false;  // through the optimizer, else by PushKind::kAdd
  std::string codec = {};  // of gradients to dense tables: one that loses nothing of 1 and 3
  Duration pause{};        // between pushes, on average
  std::uint64_t seed = 1;
};

// A load of pushes, and a record of the pushed and the acknowledged ones. All ranks share it
// without a lock, because one rank runs at a time. Push s of worker w adds 1 and 3 to two elements
// of its own in each part of each dense table. Every second push adds to a row of its own in the
// sparse table, and each adds 1 to an element that all workers share.
class Load {
 public:
  explicit Load(const LoadOptions& options);

  // A worker's pushes, with agreements of all who live in between and at the end; then it reads
  // everything.
  Result<void> run(ServedWorker& me);

  // Worker `index` was killed: its pushes without acknowledgement may be in the tables or not.
  void killed(int index) { killed_.insert(index); }
  std::uint64_t acknowledged() const { return acknowledged_.size(); }
  // When pushes were first acknowledged after `moment`, by table, among those that were sent after
  // it.
  std::map<std::size_t, TimePoint> first_acknowledged_after(TimePoint moment) const;

 private:
  struct Name {
    int worker = 0;
    int push = 0;
    std::size_t table = 0;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  struct Times {
    TimePoint sent{};
    TimePoint acknowledged{};
  };
  struct Open {
    server::Ticket ticket = 0;
    Name name;
    std::vector<float> values;
    std::vector<float> answer;
    std::vector<std::uint64_t> keys;
    std::vector<std::vector<std::byte>> encoded;  // by part
    TimePoint sent{};
  };
  struct Table {
    server::TableId id = 0;
    std::uint32_t parts = 1;
  };

  Result<std::vector<Table>> define(ServedWorker& me) const;
  Result<void> submit(ServedWorker& me, const std::vector<Table>& tables, const Name& name,
                      bool reads_back, Open& open) const;
  void submit_encoded(ServedWorker& me, const server::Client::PartRange& range,
                      const server::PushOptions& facts, bool reads_back, Open& open) const;
  Result<void> finish(ServedWorker& me, Open& open);
  Result<void> agree(ServedWorker& me, int point) const;
  Result<void> read_all(ServedWorker& me, const std::vector<Table>& tables);

  std::size_t slots() const { return static_cast<std::size_t>(options_.workers * options_.pushes); }
  std::size_t slot(const Name& name) const {
    return static_cast<std::size_t>(name.worker * options_.pushes + name.push);
  }
  std::size_t sparse() const { return static_cast<std::size_t>(options_.dense_tables); }
  std::uint64_t count_of(std::size_t table) const;
  std::size_t begin_of_part(std::uint32_t part) const;
  void check_pair(const Name& name, float first, float second, double& present) const;
  void check_part(std::size_t table, std::span<const float> part) const;

  const LoadOptions options_;
  std::set<int> killed_;
  std::map<Name, Times> acknowledged_;
};

}  // namespace tally::sim
