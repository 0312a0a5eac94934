#include "apps/tally/status_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tally::app {
namespace {

using namespace std::chrono_literals;
using group::MemberStatus;
using group::Presence;
using testing::HasSubstr;

MemberStatus present(Rank rank) {
  MemberStatus member{.rank = rank,
                      .presence = Presence::kPresent,
                      .host = "a",
                      .pid = 40 + rank,
                      .fate = "",
                      .silence = 500ms,
                      .samples_per_second = 640,
                      .report = group::Report{}};
  member.report->at = 100s;
  member.report->step = 12;
  member.report->memory_bytes = std::uint64_t{300} << 20;
  member.report->last = group::ReportedOperation{
      "world", 0, {.sequence = 16, .stage = OperationRecord::Stage::kDone, .ended = 99s}, {}, {}};
  return member;
}

MemberStatus operating(Rank rank, std::vector<Rank> waits_for) {
  MemberStatus member = present(rank);
  member.report->current = group::ReportedOperation{"world",
                                                    0,
                                                    {.sequence = 17,
                                                     .operation = Operation::kAllreduce,
                                                     .type = DataType::kFloat32,
                                                     .count = 8,
                                                     .started = 99500ms},
                                                    {},
                                                    std::move(waits_for)};
  return member;
}

TEST(StatusTable, StatesAreTold) {
  MemberStatus lost = present(0);
  lost.presence = Presence::kLost;
  lost.fate = "its process was killed by signal 9";
  MemberStatus silent = present(0);
  silent.presence = Presence::kUnreachable;
  MemberStatus failed = present(0);
  failed.report->failure = Error{.code = ErrorCode::kTimeout, .peer = 1, .message = "late"};
  MemberStatus left = present(0);
  left.presence = Presence::kLeft;
  struct Case {
    MemberStatus member;
    std::string word;
    std::string text;
  };
  for (const Case& each :
       {Case{present(0), "computing", "computing for 1.5 s"},
        Case{operating(0, {}), "operating", "in #17 allreduce sum of 8 float32 for 1.0 s"},
        Case{operating(0, {2}), "waiting",
             "in #17 allreduce sum of 8 float32 for 1.0 s, waiting for rank 2"},
        Case{lost, "lost", "lost: its process was killed by signal 9"},
        Case{silent, "unreachable", "unreachable for 0.5 s"},
        Case{failed, "failed", "failed: rank 1: late"}, Case{left, "left", "left"},
        Case{MemberStatus{}, "expected", "not heard of yet"}}) {
    EXPECT_EQ(state_word(each.member), each.word);
    EXPECT_EQ(state_text(each.member), each.text);
  }
}

TEST(StatusTable, ColumnsAreAligned) {
  const group::JobStatus status{.job = "digits",
                                .generation = 2,
                                .size = 2,
                                .address = "127.0.0.1:99",
                                .uptime = 61s,
                                .stall = "",
                                .members = {present(0), operating(1, {0})}};
  EXPECT_EQ(status_table(status),
            "job digits, generation 2, 2 ranks, coordinator at 127.0.0.1:99, up for 61.0 s\n"
            "rank  host  pid  step  samples/s  memory   heartbeat  state\n"
            "0     a     40   12    640        300 MiB  0.5 s ago  computing for 1.5 s\n"
            "1     a     41   12    640        300 MiB  0.5 s ago  in #17 allreduce sum of 8 "
            "float32 for 1.0 s, "
            "waiting for rank 0\n");
}

TEST(StatusTable, FiguresOfTheTrainingAreColumns) {
  MemberStatus first = present(0);
  first.report->figures = {{"loss", 0.412345}, {"left_s", 61}};
  MemberStatus second = present(1);
  second.report->figures = {{"epoch", 12345.2}, {"left_s", 1e300}};
  const group::JobStatus status{.job = "digits",
                                .generation = 1,
                                .size = 3,
                                .address = "127.0.0.1:99",
                                .uptime = 61s,
                                .stall = "",
                                .members = {first, second, MemberStatus{.rank = 2}}};
  const std::string table = status_table(status);
  EXPECT_EQ(
      table.substr(table.find('\n') + 1),
      "rank  host  pid  step  loss    left    epoch  samples/s  memory   heartbeat  state\n"
      "0     a     40   12    0.4123  61.0 s  -      640        300 MiB  0.5 s ago  computing "
      "for 1.5 s\n"
      "1     a     41   12    -       -       12345  640        300 MiB  0.5 s ago  computing "
      "for 1.5 s\n"
      "2     -     -    -     -       -       -      -          -        -          not heard "
      "of yet\n");
  EXPECT_EQ(status_json(status)["ranks"][0]["figures"]["left_s"], 61);
}

TEST(StatusTable, RankThatLooksForTheOthersIsJoining) {
  MemberStatus member = operating(0, {});
  member.report->current.reset();
  member.report->joining = member.report->at - 3s;
  EXPECT_EQ(state_word(member), "joining");
  EXPECT_EQ(state_text(member), "joining for 3.5 s");
}

TEST(StatusTable, JsonCanBeParsedAndHasTheSame) {
  const group::JobStatus status{.job = "digits",
                                .generation = 2,
                                .size = 2,
                                .address = "a:1",
                                .uptime = 61s,
                                .stall = "rank 0 \"hangs\"",
                                .members = {operating(0, {1}), MemberStatus{.rank = 1}}};
  const auto json = nlohmann::json::parse(status_json(status).dump());
  EXPECT_EQ(json["ranks"][0]["state"], "waiting");
  EXPECT_EQ(json["ranks"][0]["waits_for"], std::vector<int>{1});
  EXPECT_EQ(json["ranks"][0]["step"], 12);
  EXPECT_EQ(json["ranks"][1]["state"], "expected");
  EXPECT_EQ(json["stall"], "rank 0 \"hangs\"");
}

}  // namespace
}  // namespace tally::app
