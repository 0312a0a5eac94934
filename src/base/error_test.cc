#include "tally/error.h"

#include <gtest/gtest.h>

#include <memory>

namespace tally {
namespace {

const Error kGone{.code = ErrorCode::kPeerLost, .peer = 2, .message = "connection closed"};

TEST(ResultDeathTest, TheValueOfAnErrorSaysWhichError) {
  Result<int> result = kGone;
  constexpr const char* kSays =
      "value\\(\\) of a Result that is an error: kPeerLost \\(rank 2\\): connection closed";
  EXPECT_DEATH(static_cast<void>(result.value()), kSays);
  EXPECT_DEATH(static_cast<void>(*result), kSays);
  EXPECT_DEATH(static_cast<void>(std::move(result).value()), kSays);
  const Result<std::string> text = kGone;
  EXPECT_DEATH(static_cast<void>(text->size()), kSays);
}

TEST(ResultDeathTest, AValueHasNoError) {
  const Result<int> result = 1;
  const Result<void> nothing;
  EXPECT_DEATH(static_cast<void>(result.error()), "error\\(\\) of a Result that is a value");
  EXPECT_DEATH(static_cast<void>(nothing.error()), "error\\(\\) of a Result that is a value");
}

TEST(Result, MovesItsValueAndItsError) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
  Result<void> failed = kGone;
  EXPECT_EQ(std::move(failed).error().message, "connection closed");
}

}  // namespace
}  // namespace tally
