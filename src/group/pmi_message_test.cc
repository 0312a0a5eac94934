#include "group/pmi_client.h"

#include <gtest/gtest.h>

namespace tally::group {
namespace {

TEST(PmiMessage, AnswersOfHydraAreRead) {
  const auto name = parse_pmi("cmd=my_kvsname kvsname=kvs_5419_0_1843506738_vm");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->command, "my_kvsname");
  EXPECT_EQ(name->kvsname, "kvs_5419_0_1843506738_vm");
  EXPECT_EQ(name->code, 0);

  const auto found = parse_pmi("cmd=get_result rc=0 msg=success value=tally1,10.0.0.1,33,ab");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->value, "tally1,10.0.0.1,33,ab");

  const auto missing = parse_pmi("cmd=get_result rc=-1 msg=key_x_not_found value=unknown");
  ASSERT_TRUE(missing.has_value());
  EXPECT_EQ(missing->code, -1);
  EXPECT_EQ(missing->text, "key_x_not_found");

  EXPECT_EQ(parse_pmi("cmd=barrier_out")->command, "barrier_out");
  EXPECT_EQ(parse_pmi(" cmd=maxes  keylen_max=64 ")->command, "maxes");
  EXPECT_EQ(parse_pmi("cmd=get_result value=a=b")->value, "a=b");
}

TEST(PmiMessage, AnythingElseIsCorrupt) {
  for (const std::string& line :
       {std::string(), std::string("hello"), std::string("=x"), std::string("rc=0"),
        std::string("cmd="), std::string("cmd=put_result rc=zero"), std::string("cmd=x rc="),
        std::string("cmd=x rc=99999999999"), std::string("cmd=x word"),
        "cmd=" + std::string(kMaxPmiBytes, 'x')}) {
    const auto answer = parse_pmi(line);
    ASSERT_FALSE(answer.has_value()) << line;
    EXPECT_EQ(answer.error().code, ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace tally::group
