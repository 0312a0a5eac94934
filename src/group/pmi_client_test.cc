#include "group/pmi_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>
#include <vector>

namespace tally::group {
namespace {

// The server side of a connection. Answers each request with the next of the given lines.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> answers) : answers_(std::move(answers)) {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    client_ = Descriptor(ends[0]);
    server_ = Descriptor(ends[1]);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() {
    if (thread_.joinable()) thread_.join();
  }

  int client() const { return client_.descriptor(); }
  // The requests received. Waits until the server has ended.
  std::vector<std::string> requests() {
    client_.reset();
    thread_.join();
    return requests_;
  }

 private:
  void serve() {
    for (const std::string& answer : answers_) {
      std::string line;
      for (char letter = 0; letter != '\n'; line += letter)
        if (read(server_.descriptor(), &letter, 1) != 1) return;
      line.pop_back();
      requests_.push_back(line);
      (void)send(server_.descriptor(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    server_.reset();
  }

  const std::vector<std::string> answers_;
  Descriptor client_;
  Descriptor server_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

constexpr const char* kName = "cmd=my_kvsname kvsname=kvs_1\n";
constexpr const char* kBarrier = "cmd=barrier_out\n";
constexpr const char* kNote = "cmd=get_result rc=0 msg=success value=note\n";
constexpr const char* kGoodbye = "cmd=finalize_ack\n";

TEST(PmiSession, PassesTheNoteAndSaysGoodbye) {
  ScriptedServer server({kName, "cmd=put_result rc=0 msg=success\n", kBarrier, kNote, kGoodbye});
  {
    PmiSession session(server.client());
    const auto note = session.pass(0, "note", Deadline::never());
    ASSERT_TRUE(note.has_value()) << to_string(note.error());
    EXPECT_EQ(*note, "note");
  }
  EXPECT_THAT(server.requests(),
              testing::ElementsAre(
                  "cmd=get_my_kvsname", "cmd=put kvsname=kvs_1 key=tally-meet-0 value=note",
                  "cmd=barrier_in", "cmd=get kvsname=kvs_1 key=tally-meet-0", "cmd=finalize"));
}

TEST(PmiSession, OtherRanksPutNothingAndEachJoinHasItsKey) {
  ScriptedServer server({kName, kBarrier, kNote, kName, kBarrier, kNote, kGoodbye});
  {
    PmiSession session(server.client());
    EXPECT_EQ(*session.pass(1, "", Deadline::never()), "note");
    EXPECT_EQ(*session.pass(1, "", Deadline::never()), "note");
  }
  const auto requests = server.requests();
  EXPECT_EQ(requests[2], "cmd=get kvsname=kvs_1 key=tally-meet-0");
  EXPECT_EQ(requests[5], "cmd=get kvsname=kvs_1 key=tally-meet-1");
}

TEST(PmiSession, OneThatWasNotUsedIsSilent) {
  ScriptedServer server({kGoodbye});
  { const PmiSession session(server.client()); }
  EXPECT_THAT(server.requests(), testing::IsEmpty());
}

TEST(PmiSession, BadServersAreErrors) {
  const std::vector<std::pair<std::vector<std::string>, ErrorCode>> cases = {
      {{}, ErrorCode::kPeerLost},
      {{"cmd=barrier_out\n"}, ErrorCode::kCorrupt},
      {{"cmd=my_kvsname\n"}, ErrorCode::kCorrupt},
      {{"nonsense\n"}, ErrorCode::kCorrupt},
      {{"cmd=my_kvsname kvsname=a\ncmd=more\n"}, ErrorCode::kCorrupt},
      {{std::string(5000, 'x') + "\n"}, ErrorCode::kCorrupt},
      {{kName, "cmd=put_result rc=-1 msg=duplicate_key\n"}, ErrorCode::kSystem},
      {{kName, "cmd=put_result rc=0\n", kBarrier, "cmd=get_result rc=-1 msg=no\n"},
       ErrorCode::kCorrupt}};
  for (const auto& [answers, code] : cases) {
    ScriptedServer server(answers);
    PmiSession session(server.client());
    const auto note = session.pass(0, "note", Deadline::never());
    ASSERT_FALSE(note.has_value());
    // Without answers the connection is already closed, so the request may fail with another code.
    if (!answers.empty()) {
      EXPECT_EQ(note.error().code, code) << note.error().message;
    }
  }
}

TEST(PmiSession, SilenceEndsAtTheDeadline) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor client(ends[0]);
  Descriptor server(ends[1]);
  PmiSession session(client.descriptor());
  const auto note = session.pass(1, "", Deadline::after(Duration::zero()));
  ASSERT_FALSE(note.has_value());
  EXPECT_EQ(note.error().code, ErrorCode::kTimeout);
  // Close the server side, so that the session's goodbye does not block.
  server.reset();
}

}  // namespace
}  // namespace tally::group
