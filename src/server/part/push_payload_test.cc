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
    const TableConfig config{.spec = {.kind = TableKind::kSparse, .dimension = 1}, .parts = 1};
    auto read = read_payload(std::span(memory).subspan(shift), config, 0, {});
    ASSERT_TRUE(read.has_value());
    const PartPayload moved = std::move(*read);
    EXPECT_TRUE(std::equal(moved.keys.begin(), moved.keys.end(), keys.begin(), keys.end()));
    EXPECT_EQ(test::floats_of(moved.values), (std::vector<float>{5, 6}));
  }
}

}  // namespace
}  // namespace tally::server
