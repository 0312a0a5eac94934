#include "server/node/server_node.h"

#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

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
  const TableId table = cluster.define(sparse("update=asp", 1, 2));
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
}  // namespace tally::server::test
