#include "checkpoint/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/test_content.h"

namespace tally::checkpoint {
namespace {

using Steps = std::vector<std::uint64_t>;

TEST(FolderNames, StepsAreNamedOneWayOnly) {
  EXPECT_EQ(name_of_step(120), "step-0000000120");
  EXPECT_EQ(step_of_name("step-0000000120"), 120U);
  EXPECT_EQ(step_of_name(name_of_step(~std::uint64_t{0})), ~std::uint64_t{0});
  for (const char* name :
       {"step-120", "step-00000000120", "step-0000000120x", "step-", "step", "step-+000000120",
        "old-step-0000000120", ".step-0000000120.part", "step-99999999999999999999"})
    EXPECT_FALSE(step_of_name(name).has_value()) << name;
}

struct RetentionCase {
  Steps steps;
  std::uint64_t saved;
  int keep;
  Steps remove;
  Steps set_aside;
};

TEST(Retention, KeepsTheNewestAndNeverRemovesWhatWasJustSaved) {
  const std::vector<RetentionCase> cases = {
      {{10}, 10, 1, {}, {}},
      {{10, 20}, 20, 1, {10}, {}},
      {{10, 20, 30, 40}, 40, 3, {10}, {}},
      {{10, 20}, 20, 3, {}, {}},
      {{40, 10, 30, 20}, 40, 2, {10, 20}, {}},
      // Resumed from step 10 although steps 20 and 30 existed.
      {{10, 15, 20, 30}, 15, 1, {10}, {20, 30}},
      {{5, 20}, 5, 1, {}, {20}},
  };
  for (const RetentionCase& tested : cases) {
    const Retention retention = decide_retention(tested.steps, tested.saved, tested.keep);
    EXPECT_EQ(retention.remove, tested.remove) << tested.saved;
    EXPECT_EQ(retention.set_aside, tested.set_aside) << tested.saved;
    EXPECT_THAT(retention.remove, testing::Not(testing::Contains(tested.saved)));
  }
}

class InAFolder : public testing::Test {
 protected:
  void make(const std::string& name) {
    std::filesystem::create_directories(folder_.path() / name);
    std::ofstream(folder_.path() / name / "file") << name;
  }
  bool has(const std::string& name) const { return std::filesystem::exists(folder_.path() / name); }

  const TestFolder folder_;
};

TEST_F(InAFolder, StepsAreListedRisingAndOthersAreNot) {
  for (const std::string name : {"step-0000000020", "step-0000000003", ".step-0000000005.part",
                                 "mine", "old-step-0000000050"})
    make(name);
  EXPECT_EQ(list_steps(folder_.path()), (Steps{3, 20}));
  EXPECT_TRUE(list_steps(folder_.path() / "nowhere").empty());
}

TEST_F(InAFolder, OnlyLeftoversOfOursAreRemoved) {
  for (const std::string name : {".step-0000000005.part", ".step-0000000006.old", "step-0000000003",
                                 ".mine.part", ".part", "step-0000000009.part", ".step-9.part"})
    make(name);
  ASSERT_TRUE(remove_leftovers(folder_.path()).has_value());
  EXPECT_FALSE(has(".step-0000000005.part"));
  EXPECT_FALSE(has(".step-0000000006.old"));
  for (const std::string name :
       {"step-0000000003", ".mine.part", ".part", "step-0000000009.part", ".step-9.part"})
    EXPECT_TRUE(has(name)) << name;
}

TEST_F(InAFolder, RetainRemovesAndSetsAside) {
  for (const std::string name : {"step-0000000001", "step-0000000002", "step-0000000009"})
    make(name);
  ASSERT_TRUE(retain(folder_.path(), {.remove = {1}, .set_aside = {9}}).has_value());
  EXPECT_EQ(list_steps(folder_.path()), (Steps{2}));
  EXPECT_TRUE(has("old-step-0000000009"));
  EXPECT_FALSE(has(".step-0000000001.old"));
}

// Three trainings into one folder: the models of the first two stay.
TEST_F(InAFolder, WhatWasSetAsideBeforeIsKept) {
  make("old-step-0000000009");
  make("old-step-0000000009.2");
  make("step-0000000009");
  ASSERT_TRUE(retain(folder_.path(), {.set_aside = {9}}).has_value());
  EXPECT_TRUE(list_steps(folder_.path()).empty());
  for (const auto& [name, expected] : {std::pair("old-step-0000000009", "old-step-0000000009"),
                                       std::pair("old-step-0000000009.2", "old-step-0000000009.2"),
                                       std::pair("old-step-0000000009.3", "step-0000000009")}) {
    std::string text;
    std::ifstream(folder_.path() / name / "file") >> text;
    EXPECT_EQ(text, expected) << name;
  }
}

TEST_F(InAFolder, PublishReplacesACheckpointOfTheSameStep) {
  make("step-0000000007");
  make(".step-0000000007.part");
  ASSERT_TRUE(publish(folder_.path(), 7).has_value());
  std::string text;
  std::ifstream(folder_.path() / "step-0000000007" / "file") >> text;
  EXPECT_EQ(text, ".step-0000000007.part");
}

TEST_F(InAFolder, SecondLockIsRefusedUntilTheFirstIsGone) {
  {
    const auto first = FolderLock::take(folder_.path());
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(FolderLock::text_in(folder_.path()), first->text());
    const auto second = FolderLock::take(folder_.path());
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, ErrorCode::kRefused);
    EXPECT_THAT(second.error().message,
                testing::AllOf(testing::HasSubstr(folder_.path().string()),
                               testing::HasSubstr(fmt::format("process {}", ::getpid()))));
  }
  EXPECT_TRUE(FolderLock::take(folder_.path()).has_value());
}

}  // namespace
}  // namespace tally::checkpoint
