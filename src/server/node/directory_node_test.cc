#include "server/node/directory_node.h"

#include <fmt/format.h>
#include <unistd.h>

#include "group/host.h"
#include "policy/round.h"
#include "server/protocol/payloads.h"
#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

TEST(DirectoryNode, SaysNothingBeforeEnoughServersHaveCome) {
  Cluster cluster({.servers = 0, .workers = 0});
  DirectoryNode directory(cluster.network.transport(kDirectoryId), {.servers = 2}, {});
  cluster.network.add(kDirectoryId, &directory);
  Worker& worker = cluster.add_worker(0);
  cluster.add_server();
  cluster.network.run();
  EXPECT_EQ(worker.view().number, 0U);
  cluster.add_server();
  cluster.network.run();
  EXPECT_EQ(worker.view().number, 1U);
  EXPECT_THAT(worker.view().chains,
              ElementsAre(std::vector<NodeId>{2, 3}, std::vector<NodeId>{3, 2}));
  EXPECT_THAT(worker.view().workers, ElementsAre(WorkerInfo{1, 0}));
}

TEST(DirectoryNode, TellsEverybodyOfWhoComesAndGoes) {
  Cluster cluster({.servers = 2, .workers = 2});
  EXPECT_EQ(cluster.worker(0).view(), cluster.worker(1).view());
  cluster.kill_worker(1);
  cluster.network.run();
  EXPECT_EQ(cluster.worker(0).view().workers.size(), 1U);
  cluster.kill_server(1);
  cluster.network.run();
  EXPECT_THAT(cluster.worker(0).view().chains,
              ElementsAre(std::vector<NodeId>{2}, std::vector<NodeId>{2}));
  cluster.add_server();
  cluster.network.run();
  EXPECT_THAT(cluster.worker(0).view().chains,
              ElementsAre(std::vector<NodeId>{2, 5}, std::vector<NodeId>{2, 5}));
  cluster.worker(0).leave();
  cluster.network.run();
  EXPECT_TRUE(cluster.directory->view().workers.empty());
}

TEST(DirectoryNode, SaysThatOnlyOneCopyIsLeft) {
  Cluster two({.servers = 2, .workers = 1});
  two.kill_server(1);
  two.network.run();
  EXPECT_TRUE(two.has_event(
      "server 2: 2 of 2 slots have their only copy there until another server joins"));
  Cluster three({.servers = 3, .workers = 1});
  three.kill_server(1);
  three.network.run();
  EXPECT_TRUE(three.has_event(
      "server 2 and 3: 2 of 3 slots have their only copy there until it is copied to another "
      "server"));
  Cluster lone({.servers = 2, .workers = 1, .replicas = 1});
  lone.kill_server(1);
  lone.network.run();
  EXPECT_FALSE(lone.has_event("only copy"));
}

TEST(DirectoryNode, AWorkerWithARankThatIsThereTakesItsPlaceAndTheOtherIsTold) {
  Cluster cluster({.servers = 1, .workers = 1});
  Worker& second = cluster.add_worker(0);
  cluster.network.run();
  EXPECT_THAT(second.view().workers, ElementsAre(WorkerInfo{second.id(), 0}));
  EXPECT_EQ(cluster.worker(0).view(), second.view());
}

TEST(DirectoryNode, GivesUpWhoIsSilentAndTellsIt) {
  Cluster cluster({.servers = 2, .workers = 1});
  const auto at = [](int seconds) { return TimePoint(std::chrono::seconds(seconds)); };
  cluster.directory->settle(at(100));
  cluster.network.transport(2).send(kDirectoryId, {.kind = MessageKind::kHeartbeat}, {});
  cluster.network.transport(3).send(kDirectoryId, {.kind = MessageKind::kHeartbeat}, {});
  for (int now = 101; now <= 103; ++now) cluster.directory->settle(at(now));
  cluster.network.run();
  for (int now = 104; now <= 106; ++now) cluster.directory->settle(at(now));
  cluster.network.run();
  EXPECT_THAT(cluster.directory->view().chains,
              ElementsAre(std::vector<NodeId>{2}, std::vector<NodeId>{2}));
  EXPECT_TRUE(cluster.servers[1]->expelled());
  EXPECT_FALSE(cluster.servers[2]->expelled());
  EXPECT_TRUE(cluster.has_event("server 1 is gone: it was silent for 5000 ms"));
}

// Member 7 is this process, and member 8 one on another host.
TEST(DirectoryNode, WaitsForWhoIsSilentWhileItsProcessLives) {
  Cluster cluster({.servers = 1, .workers = 0});
  const auto at = [](int seconds) { return TimePoint(std::chrono::seconds(seconds)); };
  const auto join = [&cluster](NodeId id, std::int32_t rank, const std::string& host) {
    cluster.network.transport(id).send(
        kDirectoryId, {.kind = MessageKind::kJoin},
        encode(Joining{.rank = rank, .server = {.host = host}, .pid = ::getpid()}));
  };
  cluster.directory->settle(at(100));
  join(7, 0, *group::host_identity(""));
  join(8, 1, "another");
  for (int now = 101; now <= 110; ++now) {
    cluster.network.transport(1).send(kDirectoryId, {.kind = MessageKind::kHeartbeat}, {});
    cluster.network.run();
    cluster.directory->settle(at(now));
  }
  EXPECT_THAT(cluster.directory->view().workers, ElementsAre(WorkerInfo{7, 0}));
  EXPECT_TRUE(cluster.has_event("the worker of rank 1 is gone: it was silent for 5000 ms"));
  EXPECT_TRUE(cluster.has_event(
      "the worker of rank 0 has been silent for 6.0 s; its process lives, the job waits for it"));
  cluster.network.transport(7).send(kDirectoryId, {.kind = MessageKind::kHeartbeat}, {});
  cluster.network.run();
  EXPECT_TRUE(cluster.has_event("the worker of rank 0 is heard of again after 10.0 s"));
}

// For a minute only this server beats.
void let_others_be_silent(Cluster& cluster, NodeId beating, int from = 100) {
  for (int now = from; now <= from + 60; ++now) {
    cluster.servers[beating]->settle(TimePoint(std::chrono::seconds(now)));
    cluster.network.run();
    cluster.directory->settle(TimePoint(std::chrono::seconds(now)));
  }
  cluster.network.run();
}

TEST(DirectoryNode, GivesUpASilentServerWithCopies) {
  Cluster cluster({.servers = 2, .workers = 1, .is_local = true});
  cluster.define({.name = "weights", .count = 1, .plan = "update=asp"});
  let_others_be_silent(cluster, 2);
  EXPECT_TRUE(cluster.has_event(
      "server 1 has been silent for 6.0 s; its process lives, the job waits for it"));
  EXPECT_TRUE(cluster.has_event(
      "server 1 is gone: it was silent for 30000 ms, and other servers have its parts; its process "
      "lives and serves no more when it resumes"));
  EXPECT_THAT(cluster.directory->view().chains,
              ElementsAre(std::vector<NodeId>{2}, std::vector<NodeId>{2}));
  EXPECT_TRUE(cluster.servers[1]->expelled());
}

TEST(DirectoryNode, GivesUpTwoSilentServersIfTheThirdHasCopies) {
  Cluster cluster({.servers = 3, .workers = 1, .replicas = 3, .is_local = true});
  cluster.define({.name = "weights", .count = 1, .plan = "update=asp"});
  let_others_be_silent(cluster, 3);
  EXPECT_THAT(cluster.directory->view().chains, testing::Each(std::vector<NodeId>{3}));
}

TEST(DirectoryNode, WaitsForASilentServerWithoutCopies) {
  Cluster cluster({.servers = 2, .workers = 1, .replicas = 1, .is_local = true});
  cluster.define({.name = "weights", .count = 1, .plan = "update=asp"});
  let_others_be_silent(cluster, 2);
  EXPECT_TRUE(cluster.has_event("server 1 has been silent"));
  EXPECT_FALSE(cluster.has_event("is gone: it was silent for 30000 ms"));
  EXPECT_EQ(cluster.directory->view().servers.size(), 2U);
}

TEST(DirectoryNode, WaitsForASilentServerWhoseCopyIsNotComplete) {
  Cluster cluster({.servers = 2, .workers = 1, .is_local = true});
  cluster.define({.name = "weights", .count = 1, .plan = "update=asp"});
  cluster.kill_server(2);
  const NodeId late = cluster.add_server();
  cluster.network.hold(1, late);
  let_others_be_silent(cluster, late);
  EXPECT_EQ(cluster.directory->view().servers.size(), 2U);
  cluster.network.release(1, late);
  let_others_be_silent(cluster, late, 161);
  EXPECT_THAT(cluster.directory->view().chains,
              ElementsAre(std::vector<NodeId>{late}, std::vector<NodeId>{late}));
  EXPECT_FALSE(cluster.has_event("lost: parts"));
}

// A record that the other server cannot take leaves it without a usable copy.
TEST(DirectoryNode, WaitsForASilentServerWhoseCopyIsSpoilt) {
  Cluster cluster({.servers = 2, .workers = 1, .is_local = true});
  const TableId table = cluster.define({.name = "weights", .count = 1, .plan = "update=asp"});
  const NodeId silent = cluster.primary(table, 0);
  const NodeId other = 3 - silent;
  cluster.servers[other]->settle(TimePoint(std::chrono::seconds(99)));
  cluster.network.run();
  const auto send = [&](std::uint8_t flags, std::uint64_t piece, std::vector<std::byte> payload) {
    cluster.network.transport(silent).send(other,
                                           {.kind = MessageKind::kRecord,
                                            .push_kind = flags,
                                            .table = table,
                                            .view = cluster.directory->view().number,
                                            .sequence = 1000,
                                            .clock = piece},
                                           std::move(payload));
  };
  send(kMoreToCome, 0, encode(PartMetadata{.round = policy::Round({.workers = 1}).encode()}));
  send(0, 1, std::vector<std::byte>(1));
  cluster.network.run();
  let_others_be_silent(cluster, other);
  EXPECT_TRUE(cluster.has_event(fmt::format("server {} has been silent", silent)));
  EXPECT_EQ(cluster.directory->view().servers.size(), 2U);
}

TEST(DirectoryNode, GivesNobodyUpForTheTimeItStoodStillItself) {
  Cluster cluster({.servers = 2, .workers = 1});
  const auto at = [](int seconds) { return TimePoint(std::chrono::seconds(seconds)); };
  cluster.directory->settle(at(100));
  cluster.directory->settle(at(101));
  cluster.directory->settle(at(500));
  EXPECT_EQ(cluster.directory->view().servers.size(), 2U);
  EXPECT_EQ(cluster.directory->view().workers.size(), 1U);
  // The silence before the pause still counts.
  for (int now = 501; now <= 505; ++now) cluster.directory->settle(at(now));
  EXPECT_TRUE(cluster.directory->view().servers.empty());
  EXPECT_TRUE(cluster.has_event("the worker of rank 0 is gone: it was silent for 5000 ms"));
}

TEST(DirectoryNode, ServersBeat) {
  Cluster cluster({.servers = 1, .workers = 1});
  const auto at = [](int milliseconds) {
    return TimePoint(std::chrono::milliseconds(milliseconds));
  };
  for (int now = 1000; now <= 2000; now += 20) cluster.servers[1]->settle(at(now));
  cluster.network.run();
  EXPECT_EQ(cluster.network.delivered(MessageKind::kHeartbeat), 6U);
}

TEST(DirectoryNode, AServerThatComesLaterBeatsOnlyAfterItHasJoined) {
  Cluster cluster({.servers = 1, .workers = 1});
  ServerNode server(cluster.network.transport(9), {.self = {.address = "host:9"}}, {});
  cluster.network.add(9, &server);
  server.settle(TimePoint(std::chrono::seconds(1)));
  cluster.network.run();
  server.join();
  cluster.network.run();
  EXPECT_FALSE(server.expelled());
  EXPECT_EQ(cluster.directory->view().servers.size(), 2U);
}

TEST(DirectoryNode, RefusesWhoCannotBeReadAndSaysWhichSlotHasNobody) {
  Cluster cluster({.servers = 1, .workers = 1});
  cluster.network.transport(50).send(kDirectoryId, {.kind = MessageKind::kJoin},
                                     std::vector<std::byte>(3));
  cluster.network.run();
  EXPECT_TRUE(cluster.has_event("member 50 was not let in"));
  cluster.kill_server(1);
  cluster.network.run();
  EXPECT_TRUE(cluster.has_event("nobody is left who has the parts of slot 0"));
  EXPECT_THAT(cluster.worker(0).view().chains, ElementsAre(std::vector<NodeId>{}));
}

TEST(DirectoryNode, AServerThatItDoesNotLetInServesNoMore) {
  Cluster cluster({.servers = 2, .workers = 0});
  cluster.network.transport(1).send(kDirectoryId, {.kind = MessageKind::kJoin},
                                    std::vector<std::byte>(3));
  cluster.network.run();
  EXPECT_TRUE(cluster.servers[1]->expelled());
  EXPECT_FALSE(cluster.servers[2]->expelled());
  EXPECT_TRUE(cluster.has_event("this server serves no more: the directory refuses it"));
}

TEST(DirectoryNode, AnswersWhoAsksWhetherItIsAMember) {
  Cluster cluster({.servers = 2, .workers = 1});
  const auto at = [](int seconds) { return TimePoint(std::chrono::seconds(seconds)); };
  const TableId table = cluster.define({.name = "weights", .count = 1, .plan = "update=asp"});
  for (const NodeId id : {1U, 2U})
    for (const int now : {10, 20}) cluster.servers[id]->settle(at(now));
  cluster.network.hold(kDirectoryId, 1);
  cluster.network.hold(kDirectoryId, 2);
  const auto pulled = cluster.worker(0).pull(table, 0);
  cluster.network.run();
  EXPECT_EQ(cluster.worker(0).answer(pulled), nullptr);
  cluster.network.release(kDirectoryId, 1);
  cluster.network.release(kDirectoryId, 2);
  cluster.network.run();
  EXPECT_TRUE(cluster.worker(0).is_done(pulled));
}

TEST(DirectoryNode, AServerWithoutDirectoryServesNoMore) {
  Cluster cluster({.servers = 1, .workers = 1});
  const TableId table = cluster.define({.name = "weights", .count = 1, .plan = "update=asp"});
  cluster.servers[1]->on_lost(kDirectoryId, {.code = ErrorCode::kPeerLost, .message = "ended"});
  EXPECT_TRUE(cluster.servers[1]->expelled());
  const auto pulled = cluster.worker(0).pull(table, 0);
  cluster.network.run();
  EXPECT_EQ(cluster.worker(0).answer(pulled), nullptr);
  EXPECT_EQ(cluster.worker(0).open(), 1U);
}

}  // namespace
}  // namespace tally::server::test
