#include "server/node/server_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/test_cluster.h"

namespace tally::server {
namespace {

using test::bytes_of;
using test::Cluster;
using test::sparse_payload;
using test::Worker;
using testing::Each;
using testing::ElementsAre;

TableSpec dense(const std::string& plan, int workers, std::uint64_t count = 4) {
  return {.name = "weights",
          .count = count,
          .optimizer = sgd({.rate = 1}),
          .plan = plan,
          .workers = workers};
}

TableSpec sparse(const std::string& plan, int workers, std::uint32_t dimension = 2) {
  return {.name = "rows",
          .kind = TableKind::kSparse,
          .dimension = dimension,
          .optimizer = sgd({.rate = 1}),
          .plan = plan,
          .workers = workers};
}

TEST(ServerNode, PushedGradientsMoveValuesAndPullsShowThem) {
  Cluster cluster({.servers = 1, .workers = 1});
  const TableId table = cluster.define(dense("update=asp", 1));
  Worker& worker = cluster.worker(0);
  const auto assigned =
      worker.push(table, 0, {.kind = PushKind::kAssign}, bytes_of({10, 20, 30, 40}));
  const auto added = worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 1, 1, 1}));
  const auto pushed = worker.push(table, 0, {.clock = 1, .rate = 0.5}, bytes_of({2, 4, 6, 8}));
  const auto pulled = worker.pull(table, 0);
  cluster.network.run();
  EXPECT_TRUE(worker.is_done(assigned));
  EXPECT_TRUE(worker.is_done(added));
  ASSERT_TRUE(worker.is_done(pushed));
  EXPECT_EQ(worker.answer(pushed)->header.version, 1U);
  EXPECT_EQ(worker.answer(pushed)->header.clock, 1U);
  ASSERT_TRUE(worker.is_done(pulled));
  EXPECT_THAT(worker.answer(pulled)->values(), ElementsAre(10, 19, 28, 37));
}

TEST(ServerNode, RowsOfSparseTablesAreAddedToByKey) {
  Cluster cluster({.servers = 1, .workers = 1});
  const TableId table = cluster.define(sparse("update=asp", 1));
  Worker& worker = cluster.worker(0);
  std::uint64_t key = 0;
  while (part_of_key(key, 4) != 2) ++key;
  worker.push(table, 2, {.kind = PushKind::kAdd}, sparse_payload({key}, {3, 4}));
  const auto pulled = worker.ask({.kind = MessageKind::kPull, .table = table, .part = 2},
                                 sparse_payload({key}, {}));
  cluster.network.run();
  ASSERT_TRUE(worker.is_done(pulled));
  EXPECT_THAT(worker.answer(pulled)->values(), ElementsAre(3, 4));
}

}  // namespace
}  // namespace tally::server
