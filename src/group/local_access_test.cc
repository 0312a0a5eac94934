#include "group/local_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tally::group {
namespace {

TEST(LocalAccess, FindsListeningSocketsOfOneUser) {
  const std::string table =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "00000000: 00000002 00000000 00010000 0001 01 14853 @tally-job-1000-digits\n"
      "00000000: 00000003 00000000 00000000 0001 03 14854 @tally-job-1000-digits\n"
      "00000000: 00000002 00000000 00010000 0001 01 14855 @tally-job-1000-a.2\n"
      "00000000: 00000002 00000000 00010000 0001 01 14856 @tally-job-1001-other\n"
      "00000000: 00000002 00000000 00010000 0001 01 14857 @tally-job-1000-\n"
      "00000000: 00000002 00000000 00010000 0001 01 14858 /run/tally-job-1000-file\n"
      "00000000: 00000002 00000000 00000000 0002 01 14859\n";
  EXPECT_THAT(jobs_in(table, 1000), testing::ElementsAre("a.2", "digits"));
}

TEST(LocalAccess, NamesAreShortAndPlain) {
  for (const char* name : {"digits", "a.b_c-9"}) EXPECT_TRUE(is_job_name(name)) << name;
  for (const char* name : {"", "a b", "a/b", "ä"}) EXPECT_FALSE(is_job_name(name)) << name;
  EXPECT_FALSE(is_job_name(std::string(65, 'a')));
}

TEST(LocalAccess, SecondJobOfANameGetsANumber) {
  const std::string name = "unit" + std::to_string(getpid());
  {
    const auto first = open_local_access(name);
    const auto second = open_local_access(name);
    ASSERT_TRUE(first.has_value() && second.has_value());
    EXPECT_EQ(first->name, name);
    EXPECT_EQ(second->name, name + ".2");
    EXPECT_THAT(local_jobs(), testing::IsSupersetOf({name, name + ".2"}));
    EXPECT_TRUE(connect_local(name).has_value());
  }
  EXPECT_THAT(local_jobs(), testing::Not(testing::Contains(name)));
  EXPECT_FALSE(connect_local(name).has_value());
}

}  // namespace
}  // namespace tally::group
