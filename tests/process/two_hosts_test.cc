// A job on two hosts: the bytes that cross the cable between them, and a cut of the cable.
#include <array>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process/crew.h"
#include "process/two_hosts.h"

namespace tally::process {
namespace {

constexpr std::size_t kBytes = 16 << 20;
constexpr int kRounds = 5;

class TwoHostsJob : public OnTwoHosts {
 protected:
  // Ranks 0 and 1 on the first host, 2 and 3 on the second.
  void start_job(const std::vector<std::string>& words) {
    for (Rank rank = 0; rank < 4; ++rank) {
      std::vector<std::string> command = {TALLY_WORKER_PROGRAM};
      command.insert(command.end(), words.begin(), words.end());
      std::map<std::string, std::string> variables = {{"RANK", std::to_string(rank)},
                                                      {"WORLD_SIZE", "4"},
                                                      {"MASTER_ADDR", TwoHosts::address(0)},
                                                      {"MASTER_PORT", "29400"},
                                                      {"TALLY_TIMEOUT", kNever},
                                                      {"TALLY_JOIN_TIMEOUT", kNever}};
      variables["TALLY_SECRET_FILE"] = secret_.secret_file(kSecretSeed);
      ranks_.push_back(std::make_unique<Child>(
          Child::Options{hosts().on(rank / 2, command), std::move(variables)}));
    }
  }

  double number_said(Child& child) const {
    const auto line = child.line("took ");
    EXPECT_TRUE(line.has_value()) << child.transcript();
    return line ? std::stod(line->substr(5)) : 0;
  }

  double link_us() const {
    const std::string bytes = std::to_string(kBytes);
    const std::string rounds = std::to_string(kRounds);
    Child listener(
        {.command = hosts().on(0, {TALLY_PUMP_PROGRAM, "listen", "29500", bytes, rounds})});
    Child caller({.command = hosts().on(1, {TALLY_PUMP_PROGRAM, "call", TwoHosts::address(0),
                                            "29500", bytes, rounds})});
    return number_said(caller);
  }

  const Crew secret_{{}};
  std::vector<std::unique_ptr<Child>> ranks_;
};

// Each host sends its half of the sum once and the finished other half once: as many bytes as the
// vector has. The times are recorded but not compared, because only an idle machine fills the link.
TEST_F(TwoHostsJob, HierarchicalAllreduceCrossesTheLinkOncePerHost) {
  const double link = link_us();
  const std::array<std::uint64_t, 2> before = {hosts().sent_bytes(0), hosts().sent_bytes(1)};
  start_job({"time", std::to_string(kBytes / sizeof(float)), std::to_string(kRounds)});
  const double ours = number_said(*ranks_[0]);
  for (auto& rank : ranks_) EXPECT_TRUE(rank->exits(0)) << rank->transcript();
  RecordProperty("link_us", std::to_string(link));
  RecordProperty("allreduce_us", std::to_string(ours));
  for (int host = 0; host < 2; ++host) {
    const auto sent = hosts().sent_bytes(host) - before[static_cast<std::size_t>(host)];
    const double vectors = static_cast<double>(sent) / kBytes;
    EXPECT_GT(vectors, kRounds) << "host " << host;
    EXPECT_LT(vectors, 1.07 * (kRounds + 1)) << "host " << host;
  }
}

TEST_F(TwoHostsJob, ALinkThatHealsInTimeLosesNothing) {
  const Folder folder;
  start_job({"sums-until", folder.file("end")});
  for (auto& rank : ranks_) ASSERT_TRUE(rank->line("ready")) << rank->transcript();
  hosts().cut();
  std::this_thread::sleep_for(seconds(1));
  write_file(folder.file("end"), "");
  hosts().heal();
  for (auto& rank : ranks_) {
    EXPECT_TRUE(rank->line("sums right")) << rank->transcript();
    EXPECT_TRUE(rank->exits(0)) << rank->transcript();
  }
}

TEST_F(TwoHostsJob, TheDoctorFindsAWallBetweenTheHosts) {
  const std::vector<std::string> doctor = hosts().on(
      0, {TALLY_PROGRAM, "doctor", "--hosts", TwoHosts::address(0) + "," + TwoHosts::address(1),
          "--remote-shell", hosts().remote_shell()});
  Child open({.command = doctor});
  EXPECT_TRUE(open.exits(0)) << open.transcript();
  hosts().cut();
  Child walled({.command = doctor});
  EXPECT_TRUE(walled.exits(1)) << walled.transcript();
  EXPECT_THAT(walled.transcript(), testing::HasSubstr("firewall"));
}

}  // namespace
}  // namespace tally::process
