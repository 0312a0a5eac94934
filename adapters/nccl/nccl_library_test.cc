#include "adapters/nccl/nccl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::nccl {
namespace {

TEST(NcclLibrary, AFileThatDoesNotExistIsNamedWithTheRemedy) {
  const auto loaded = load_nccl("/nowhere/libnccl.so.2");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(loaded.error().message, testing::HasSubstr("TALLY_NCCL=/nowhere/libnccl.so.2"));
  EXPECT_THAT(loaded.error().message, testing::HasSubstr("or unset it"));
}

TEST(NcclLibrary, AnotherLibraryIsRefusedWithTheFunctionThatItLacks) {
  const auto loaded = load_nccl("libc.so.6");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(loaded.error().message, testing::HasSubstr("libc.so.6 has no ncclGetVersion"));
}

}  // namespace
}  // namespace tally::nccl
