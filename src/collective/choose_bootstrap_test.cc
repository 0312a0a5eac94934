#include "collective/choose_bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tally::collective {
namespace {

using Environment = std::map<std::string, std::string>;

Result<JobOptions> chosen(const LaunchFacts& facts, const Environment& environment) {
  JobOptions options;
  TALLY_TRY(choose_bootstrap(
      facts,
      [&environment](const char* name) -> const char* {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
      },
      options));
  return options;
}

LaunchFacts facts_of(Launcher launcher, bool one_host) {
  LaunchFacts facts{.launcher = launcher, .rank = 1, .size = 4};
  facts.local_size = one_host ? 4 : 2;
  facts.job_id = "job";
  facts.has_pmix = launcher == Launcher::kOpenMpi || launcher == Launcher::kPmix;
  facts.pmi_descriptor = launcher == Launcher::kHydra ? 8 : -1;
  return facts;
}

const Environment kAgent = {
    {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment kNodes = {{"SLURM_STEP_NODELIST", "n[07-09]"}};

TEST(ChooseMeeting, EachLauncherHasItsUsualWay) {
  const std::vector<std::tuple<Launcher, Bootstrap, Bootstrap>> cases = {
      {Launcher::kVariables, Bootstrap::kAddress, Bootstrap::kAddress},
      {Launcher::kTally, Bootstrap::kAddress, Bootstrap::kAddress},
      {Launcher::kKubernetes, Bootstrap::kAddress, Bootstrap::kAddress},
      {Launcher::kSlurm, Bootstrap::kLocal, Bootstrap::kAddress},
      {Launcher::kOpenMpi, Bootstrap::kLocal, Bootstrap::kPmix},
      {Launcher::kPmix, Bootstrap::kPmix, Bootstrap::kPmix},
      {Launcher::kHydra, Bootstrap::kLocal, Bootstrap::kPmi}};
  for (const auto& [launcher, on_one_host, on_several] : cases) {
    EXPECT_EQ(chosen(facts_of(launcher, true), kNodes)->bootstrap, on_one_host)
        << to_string(launcher);
    EXPECT_EQ(chosen(facts_of(launcher, false), kNodes)->bootstrap, on_several)
        << to_string(launcher);
  }
  LaunchFacts slurm = facts_of(Launcher::kSlurm, false);
  slurm.has_pmix = true;
  EXPECT_EQ(chosen(slurm, kNodes)->bootstrap, Bootstrap::kPmix);
}

TEST(ChooseMeeting, PortOfTorchrunsAgentIsAvoided) {
  EXPECT_EQ(chosen(facts_of(Launcher::kTorchrun, true), kAgent)->bootstrap, Bootstrap::kLocal);
  const auto several = chosen(facts_of(Launcher::kTorchrun, false), kAgent);
  EXPECT_EQ(several->bootstrap, Bootstrap::kAddress);
  EXPECT_EQ(several->master_address, "a");
  EXPECT_EQ(several->master_port, 29501);
  Environment last = kAgent;
  last["MASTER_PORT"] = "65535";
  EXPECT_EQ(chosen(facts_of(Launcher::kTorchrun, false), last)->master_port, 65534);
  Environment free = kAgent;
  free["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(chosen(facts_of(Launcher::kTorchrun, true), free)->bootstrap, Bootstrap::kAddress);
  EXPECT_EQ(chosen(facts_of(Launcher::kTorchrun, true), free)->master_port, 29500);
}

TEST(ChooseMeeting, SlurmStepsMeetAtTheirFirstHostAtAPortOfTheirOwn) {
  const auto options = chosen(facts_of(Launcher::kSlurm, false), kNodes);
  EXPECT_EQ(options->master_address, "n07");
  EXPECT_EQ(options->master_port, slurm_port("job"));
  std::map<int, int> jobs_at;
  for (int job = 0; job < 2000; ++job) {
    const int port = slurm_port("slurm " + std::to_string(job) + ".0");
    EXPECT_GE(port, 21000);
    EXPECT_LE(port, 29191);
    ++jobs_at[port];
  }
  // About as many distinct ports as random choices would give.
  EXPECT_GT(jobs_at.size(), 1600U);
}

TEST(ChooseMeeting, UsersDecideOtherwise) {
  const auto forced = [](Launcher launcher, const char* way) {
    return chosen(facts_of(launcher, true),
                  {{"TALLY_MEET", way}, {"SLURM_STEP_NODELIST", "n1"}, {"MASTER_PORT", "7"}});
  };
  EXPECT_EQ(forced(Launcher::kOpenMpi, "pmix")->bootstrap, Bootstrap::kPmix);
  EXPECT_EQ(forced(Launcher::kHydra, "pmi")->bootstrap, Bootstrap::kPmi);
  EXPECT_EQ(forced(Launcher::kPmix, "board")->bootstrap, Bootstrap::kLocal);
  EXPECT_EQ(forced(Launcher::kOpenMpi, "auto")->bootstrap, Bootstrap::kLocal);
  EXPECT_EQ(forced(Launcher::kOpenMpi, "address")->master_port, 7);
  EXPECT_EQ(forced(Launcher::kSlurm, "slurm")->master_address, "n1");

  const auto elsewhere = chosen(facts_of(Launcher::kSlurm, false),
                                {{"TALLY_MASTER_ADDR", "10.0.0.1"}, {"TALLY_MASTER_PORT", "99"}});
  EXPECT_EQ(elsewhere->master_address, "10.0.0.1");
  EXPECT_EQ(elsewhere->master_port, 99);
  EXPECT_EQ(elsewhere->listen_on, "");
  EXPECT_EQ(chosen(facts_of(Launcher::kOpenMpi, false), {{"TALLY_MASTER_ADDR", "x.y"}})->listen_on,
            "x.y");
  EXPECT_EQ(chosen(facts_of(Launcher::kHydra, false), {{"TALLY_INTERFACE", "ib0"}})->listen_on,
            "ib0");
  EXPECT_EQ(chosen(facts_of(Launcher::kHydra, false), {})->master_port, 0);
}

TEST(ChooseMeeting, WhatCannotBeIsNamed) {
  const std::vector<std::tuple<Launcher, Environment, std::string>> cases = {
      {Launcher::kHydra, {{"TALLY_MEET", "pmix"}}, "TALLY_MEET=pmix"},
      {Launcher::kOpenMpi, {{"TALLY_MEET", "pmi"}}, "TALLY_MEET=pmi"},
      {Launcher::kOpenMpi, {{"TALLY_MEET", "slurm"}}, "TALLY_MEET=slurm"},
      {Launcher::kOpenMpi, {{"TALLY_MEET", "pub"}}, "TALLY_MEET=pub"},
      {Launcher::kVariables, {{"MASTER_PORT", "70000"}}, "MASTER_PORT=70000"},
      {Launcher::kHydra, {{"TALLY_MASTER_PORT", "x"}}, "TALLY_MASTER_PORT=x"},
      {Launcher::kSlurm, {}, "SLURM_STEP_NODELIST"},
      {Launcher::kSlurm, {{"SLURM_STEP_NODELIST", "n[1"}}, "SLURM_STEP_NODELIST"}};
  for (const auto& [launcher, environment, text] : cases) {
    const auto options = chosen(facts_of(launcher, false), environment);
    ASSERT_FALSE(options.has_value()) << text;
    EXPECT_EQ(options.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(options.error().message, testing::HasSubstr(text));
  }
  LaunchFacts sizeless = facts_of(Launcher::kPmix, true);
  sizeless.size = 0;
  EXPECT_FALSE(chosen(sizeless, {{"TALLY_MEET", "address"}}).has_value());
  EXPECT_TRUE(chosen(sizeless, {{"TALLY_MEET", "board"}}).has_value());
  LaunchFacts nameless = facts_of(Launcher::kVariables, true);
  nameless.job_id.clear();
  EXPECT_FALSE(chosen(nameless, {{"TALLY_MEET", "board"}}).has_value());
}

}  // namespace
}  // namespace tally::collective
