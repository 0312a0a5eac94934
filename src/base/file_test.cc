#include "base/file.h"

#include <gtest/gtest.h>

namespace tally {
namespace {

TEST(File, ContentsAreWholeAlsoWhereTheKernelTellsNoSize) {
  const auto own = file_contents("/proc/self/stat");
  ASSERT_TRUE(own.has_value());
  EXPECT_NE(own->find("base_test"), std::string::npos);
}

TEST(File, AFolderAndWhatIsNotThereHaveNoContents) {
  EXPECT_FALSE(file_contents("/proc").has_value());
  EXPECT_FALSE(file_contents("/nowhere/at/all").has_value());
}

}  // namespace
}  // namespace tally
