#include "kernel/reduce/copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace tally::kernel {
namespace {

TEST(CopyForOthers, CopiesEveryLengthFromEveryAlignmentAndNotAByteMore) {
  alignas(64) std::byte into[700];
  std::vector<std::byte> from(800);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (std::size_t offset = 0; offset < 20; ++offset) {
    for (std::size_t bytes = 0; bytes < 600; ++bytes) {
      std::fill(std::begin(into), std::end(into), std::byte{0});
      copy_for_others(into, from.data() + offset, bytes);
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(into[i], from[offset + i]);
      for (std::size_t i = bytes; i < sizeof(into); ++i) ASSERT_EQ(into[i], std::byte{0});
    }
  }
}

}  // namespace
}  // namespace tally::kernel
