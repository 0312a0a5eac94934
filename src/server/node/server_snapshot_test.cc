
#include <unistd.h>

#include <fmt/format.h>

#include "server/testing/test_cluster.h"

namespace tally::server::test {
namespace {

std::vector<std::byte> restoration_of(const std::string& folder,
                                      const std::vector<std::string>& only = {}) {
  return encode(SnapshotRestoration{.folder = folder, .only = only});
}

class ServerSnapshots : public testing::Test {
 protected:
  ServerSnapshots() {
    const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::temp_directory_path() / fmt::format("tally_{}_{}", info->name(), getpid());
  }
  ~ServerSnapshots() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const Worker::Answer& ask(Cluster& cluster, NodeId server, const MessageHeader& header,
                            std::vector<std::byte> payload) {
    Worker& worker = cluster.worker(0);
    const auto asked = worker.ask_server(server, header, std::move(payload));
    cluster.network.run_until([&] { return worker.answer(asked) != nullptr; });
    return *worker.answer(asked);
  }
  // Runs both phases on all servers and returns the folder of the snapshot.
  std::string snapshot(Cluster& cluster, const std::string& name) {
    SnapshotPublication all{.name = name};
    for (const auto& [id, server] : cluster.servers) {
      const auto& answer = ask(cluster, id, {.kind = MessageKind::kSnapshot}, encode_text(name));
      EXPECT_EQ(answer.header.outcome, Outcome::kDone) << answer.error.message;
      const auto files = decode_snapshot_files(answer.payload);
      if (files) all.files.insert(all.files.end(), files->begin(), files->end());
    }
    std::string path;
    for (const auto& [id, server] : cluster.servers) {
      const auto& answer =
          ask(cluster, id, {.kind = MessageKind::kSnapshot, .push_kind = kPublishSnapshot},
              encode(all));
      EXPECT_EQ(answer.header.outcome, Outcome::kDone) << answer.error.message;
      path = *decode_text(answer.payload);
    }
    return path;
  }

  std::filesystem::path folder_;
};

std::vector<std::uint64_t> first_keys_of_part(std::uint32_t part, std::uint32_t parts) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; key < 40; ++key)
    if (part_of_key(key, parts) == part) keys.push_back(key);
  return keys;
}

TEST_F(ServerSnapshots, AreRestoredOnAnotherNumberOfServersAndCopied) {
  const TableSpec dense{.name = "weights", .count = 100000, .plan = "update=asp"};
  const TableSpec rows{
      .name = "rows", .kind = TableKind::kSparse, .dimension = 1, .plan = "update=asp"};
  std::string path;
  {
    Cluster cluster({.servers = 3, .workers = 1, .snapshots = folder_});
    const TableId weights = cluster.define(dense);
    const TableId table = cluster.define(rows);
    Worker& worker = cluster.worker(0);
    worker.push(weights, 0, {.kind = PushKind::kAdd}, bytes_of(std::vector<float>(65536, 3)));
    worker.push(weights, 1, {.kind = PushKind::kAdd}, bytes_of(std::vector<float>(34464, 5)));
    for (std::uint32_t part = 0; part < 12; ++part) {
      std::vector<float> values;
      for (const std::uint64_t key : first_keys_of_part(part, 12))
        values.push_back(static_cast<float>(key));
      worker.push(table, part, {.kind = PushKind::kAdd},
                  sparse_payload(first_keys_of_part(part, 12), values));
    }
    cluster.network.run();
    path = snapshot(cluster, "first");
    EXPECT_THAT(path, HasSubstr("first"));
  }
  Cluster cluster({.servers = 2, .workers = 1, .snapshots = folder_});
  const TableId weights = cluster.define(dense);
  const TableId table = cluster.define(rows);
  for (const NodeId id : {1U, 2U}) {
    const auto& answer = ask(cluster, id, {.kind = MessageKind::kRestore}, restoration_of(path));
    ASSERT_EQ(answer.header.outcome, Outcome::kDone) << answer.error.message;
  }
  // The replicas are restored as well.
  cluster.kill_server(1);
  cluster.network.run();
  Worker& worker = cluster.worker(0);
  const auto first = worker.pull(weights, 0);
  const auto second = worker.pull(weights, 1);
  cluster.network.run();
  EXPECT_THAT(worker.answer(first)->values(), Each(3));
  EXPECT_THAT(worker.answer(second)->values(), Each(5));
  for (std::uint32_t part = 0; part < 8; ++part) {
    const auto keys = first_keys_of_part(part, 8);
    const auto pulled = worker.pull(table, part, sparse_payload(keys, {}));
    cluster.network.run();
    const std::vector<float> values = worker.answer(pulled)->values();
    for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(keys[i]));
  }
}

TEST_F(ServerSnapshots, BringBackOnlyTheTablesThatAreAskedFor) {
  const TableSpec weights{.name = "weights", .count = 2, .plan = "update=asp"};
  const TableSpec rows{.name = "rows", .count = 2, .plan = "update=asp"};
  std::string path;
  {
    Cluster cluster({.servers = 1, .workers = 1, .snapshots = folder_});
    for (const TableSpec& spec : {weights, rows})
      cluster.worker(0).push(cluster.define(spec), 0, {.kind = PushKind::kAdd}, bytes_of({1, 2}));
    cluster.network.run();
    path = snapshot(cluster, "one");
  }
  // One table is missing, or differs.
  Cluster cluster({.servers = 1, .workers = 1, .snapshots = folder_});
  const TableId table = cluster.define(rows);
  const auto restore = [&](const std::vector<std::string>& only) {
    const auto& answer =
        ask(cluster, 1, {.kind = MessageKind::kRestore}, restoration_of(path, only));
    return answer.header.outcome == Outcome::kDone ? std::string() : answer.error.message;
  };
  EXPECT_THAT(restore({}), HasSubstr("'weights'"));
  EXPECT_THAT(restore({"weights"}), HasSubstr("'weights'"));
  EXPECT_EQ(restore({"rows"}), "");
  const auto pulled = cluster.worker(0).pull(table, 0);
  cluster.network.run();
  EXPECT_THAT(cluster.worker(0).answer(pulled)->values(), ElementsAre(1, 2));
  cluster.define({.name = "new", .count = 2, .plan = "update=asp"});
  EXPECT_THAT(restore({"new"}), HasSubstr("has no table 'new'"));
}

TEST_F(ServerSnapshots, AreNamedWhenPartsAreLostAndBringThemBack) {
  Cluster cluster({.servers = 1, .workers = 1, .replicas = 2, .snapshots = folder_});
  const TableId table = cluster.define({.name = "weights", .count = 2, .plan = "update=asp"});
  Worker& worker = cluster.worker(0);
  worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 2}));
  cluster.network.run();
  const std::string path = snapshot(cluster, "one");
  // The next server never receives the part.
  const NodeId next = cluster.add_server();
  cluster.network.hold(1, next);
  cluster.network.run();
  cluster.kill_server(1);
  cluster.network.run();
  const auto lost = worker.pull(table, 0);
  cluster.network.run();
  ASSERT_EQ(worker.answer(lost)->header.outcome, Outcome::kLost);
  worker.define({.name = "weights", .count = 2, .plan = "update=asp"});
  const auto& answer = ask(cluster, next, {.kind = MessageKind::kRestore}, restoration_of(path));
  ASSERT_EQ(answer.header.outcome, Outcome::kDone) << answer.error.message;
  const auto pulled = worker.pull(table, 0);
  cluster.network.run();
  ASSERT_TRUE(worker.is_done(pulled));
  EXPECT_THAT(worker.answer(pulled)->values(), ElementsAre(1, 2));
}

// The answer was lost, and the worker repeats the request after it has continued.
TEST_F(ServerSnapshots, AreWrittenAndReadOnceHoweverOftenTheyAreAskedFor) {
  Cluster cluster({.servers = 1, .workers = 1, .snapshots = folder_});
  const TableId table = cluster.define({.name = "weights", .count = 2, .plan = "update=asp"});
  Worker& worker = cluster.worker(0);
  const auto add = [&] {
    const auto pushed = worker.push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 2}));
    cluster.network.run();
    EXPECT_TRUE(worker.is_done(pushed));
  };
  const auto again = [&](std::uint64_t sequence) {
    const auto before = worker.answer(sequence)->payload;
    worker.ask_again(sequence);
    cluster.network.run_until([&] { return worker.answer(sequence) != nullptr; });
    EXPECT_TRUE(worker.is_done(sequence)) << worker.answer(sequence)->error.message;
    EXPECT_EQ(worker.answer(sequence)->payload, before);
  };
  add();
  const auto& written = ask(cluster, 1, {.kind = MessageKind::kSnapshot}, encode_text("one"));
  const std::uint64_t write = written.header.sequence;
  const SnapshotPublication all{.name = "one", .files = *decode_snapshot_files(written.payload)};
  add();
  again(write);
  const auto& published =
      ask(cluster, 1, {.kind = MessageKind::kSnapshot, .push_kind = kPublishSnapshot}, encode(all));
  const std::string path = *decode_text(published.payload);
  again(write);
  const auto& restored = ask(cluster, 1, {.kind = MessageKind::kRestore}, restoration_of(path));
  ASSERT_EQ(restored.header.outcome, Outcome::kDone) << restored.error.message;
  const std::uint64_t restore = restored.header.sequence;
  add();
  again(restore);
  const auto pulled = worker.pull(table, 0);
  cluster.network.run();
  EXPECT_THAT(worker.answer(pulled)->values(), ElementsAre(2, 4));
}

TEST_F(ServerSnapshots, ThatCannotBeCopiedAreRefusedWhenRestored) {
  Cluster cluster({.servers = 2, .workers = 1, .snapshots = folder_});
  const TableId table = cluster.define({.name = "weights", .count = 2, .plan = "update=asp"});
  const std::string path = snapshot(cluster, "one");
  const NodeId primary = cluster.primary(table, 0);
  cluster.network.hold(primary, 3 - primary);
  cluster.worker(0).push(table, 0, {.kind = PushKind::kAdd}, bytes_of({1, 2}));
  cluster.network.run();
  cluster.network.transport(3 - primary)
      .send(primary,
            {.kind = MessageKind::kRecordTaken,
             .outcome = Outcome::kRefused,
             .table = table,
             .view = cluster.directory->view().number,
             .sequence = 1},
            wire::encode_error({.code = ErrorCode::kExhausted, .message = "no room"}));
  cluster.network.run();
  const auto& answer = ask(cluster, primary, {.kind = MessageKind::kRestore}, restoration_of(path));
  EXPECT_EQ(answer.header.outcome, Outcome::kRefused);
  EXPECT_THAT(answer.error.message, HasSubstr("cannot take a copy: no room"));
}

TEST_F(ServerSnapshots, ThatAreDroppedLeaveNothingAndMayBeWrittenAgain) {
  Cluster cluster({.servers = 2, .workers = 1, .snapshots = folder_});
  cluster.define({.name = "weights", .count = 2, .plan = "update=asp"});
  for (const NodeId id : {1U, 2U})
    ask(cluster, id, {.kind = MessageKind::kSnapshot}, encode_text("one"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "one.part"));
  for (const NodeId id : {1U, 2U}) {
    const auto& dropped =
        ask(cluster, id, {.kind = MessageKind::kSnapshot, .push_kind = kDropSnapshot},
            encode_text("one"));
    EXPECT_EQ(dropped.header.outcome, Outcome::kDone) << dropped.error.message;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_THAT(snapshot(cluster, "one"), HasSubstr("one"));
  const auto& unknown =
      ask(cluster, 1, {.kind = MessageKind::kSnapshot, .push_kind = 3}, encode_text("two"));
  EXPECT_EQ(unknown.header.outcome, Outcome::kRefused);
  EXPECT_EQ(unknown.error.code, ErrorCode::kCorrupt);
}

TEST_F(ServerSnapshots, ThatAreNotThereAreRefusedInWords) {
  Cluster cluster({.servers = 1, .workers = 1, .snapshots = folder_});
  const auto& restored =
      ask(cluster, 1, {.kind = MessageKind::kRestore}, restoration_of((folder_ / "none").string()));
  EXPECT_EQ(restored.header.outcome, Outcome::kRefused);
  EXPECT_THAT(restored.error.message, HasSubstr("none"));
  const auto& named = ask(cluster, 1, {.kind = MessageKind::kSnapshot}, encode_text("../up"));
  EXPECT_EQ(named.header.outcome, Outcome::kRefused);
  EXPECT_EQ(named.error.code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tally::server::test
