#include "server/storage/memory.h"

#include <gtest/gtest.h>

namespace tally::server {
namespace {

TEST(MemoryBudget, ItsUseIsToldWithTheLimitOnlyWhereThereIsOne) {
  MemoryBudget limited(4096);
  ASSERT_TRUE(limited.take(1024));
  EXPECT_EQ(usage_text(limited), "1024 of 4096 bytes are in use");
  limited.give_back(1024);
  MemoryBudget unlimited(0);
  ASSERT_TRUE(unlimited.take(58720256));
  EXPECT_EQ(usage_text(unlimited), "58720256 bytes are in use, and the system has no more");
  unlimited.give_back(58720256);
}

}  // namespace
}  // namespace tally::server
