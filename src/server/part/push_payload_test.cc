#include "server/part/push_payload.h"

#include <gtest/gtest.h>

#include "server/testing/test_worker.h"

namespace tally::server {
namespace {

TEST(PushPayload, KeysThatLieAnywhereAreRead) {
  const std::vector<std::uint64_t> keys{1, 2};
  const auto payload = test::sparse_payload(keys, {5, 6});
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> memory(shift);
    memory.insert(memory.end(), payload.begin(), payload.end());
    auto read = read_payload(std::span(memory).subspan(shift),
                             {.kind = TableKind::kSparse, .dimension = 1, .check_keys = false});
    ASSERT_TRUE(read.has_value());
    const PartPayload moved = std::move(*read);
    EXPECT_TRUE(std::equal(moved.keys.begin(), moved.keys.end(), keys.begin(), keys.end()));
    EXPECT_EQ(test::floats_of(moved.values), (std::vector<float>{5, 6}));
  }
}

}  // namespace
}  // namespace tally::server
