#include "collective/slurm_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::collective {
namespace {

using testing::ElementsAre;

TEST(SlurmLists, HostsAreExpandedInOrder) {
  EXPECT_THAT(*expand_hosts("vm"), ElementsAre("vm"));
  EXPECT_THAT(*expand_hosts("a,b-1,c.d"), ElementsAre("a", "b-1", "c.d"));
  EXPECT_THAT(*expand_hosts("n[01-03,7]"), ElementsAre("n01", "n02", "n03", "n7"));
  EXPECT_THAT(*expand_hosts("n[9-11]x,login"), ElementsAre("n9x", "n10x", "n11x", "login"));
  EXPECT_THAT(*expand_hosts("r[0-1]n[2,4]"), ElementsAre("r0n2", "r0n4", "r1n2", "r1n4"));
  EXPECT_THAT(*expand_hosts("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
}

TEST(SlurmLists, WhatIsNoListOfHostsIsInvalid) {
  for (const char* list : {"", "a,,b", "n[1-3", "n1-3]", "n[]", "n[3-1]", "n[x]", "n[1--2]",
                           "n[0-99999999]", "n[1-5000]", "n[0-999]m[0-999]", "n[12345678901]"}) {
    const auto hosts = expand_hosts(list);
    ASSERT_FALSE(hosts.has_value()) << list;
    EXPECT_EQ(hosts.error().code, ErrorCode::kInvalid);
  }
}

TEST(SlurmLists, TasksOfANodeAreFound) {
  EXPECT_EQ(*tasks_on_node("4", 0), 4);
  EXPECT_EQ(*tasks_on_node("4(x2),3", 0), 4);
  EXPECT_EQ(*tasks_on_node("4(x2),3", 1), 4);
  EXPECT_EQ(*tasks_on_node("4(x2),3", 2), 3);
  for (const char* list : {"", "4(x2", "4(x)", "many", "4(x2)"})
    EXPECT_FALSE(tasks_on_node(list, 2).has_value()) << list;
}

}  // namespace
}  // namespace tally::collective
