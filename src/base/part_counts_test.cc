#include "base/part_counts.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/recorder.h"

namespace tally {
namespace {

std::string text_of(std::uint64_t count) {
  return describe(Operation::kAllgather, count, DataType::kFloat32, ReduceOp::kSum,
                  Algorithm::kRing, 0);
}

TEST(PartCounts, AnOperationShowsTheSumOfItsCounts) {
  const std::uint64_t counts = pack_counts(std::vector<std::size_t>{3, 0, 1000, 7});
  EXPECT_EQ(unpack_counts(counts)->sum, 1010U);
  EXPECT_EQ(text_of(counts).substr(0, 50), "allgather of 1010 float32 in parts by rank (counts");
  EXPECT_EQ(text_of(kCountsByRank), "allgather of float32 in parts by rank by ring");
  EXPECT_EQ(text_of(7), "allgather of 7 float32 by ring");
  EXPECT_EQ(text_of(0), "allgather of 0 float32 by ring");
}

TEST(PartCounts, OtherCountsOfTheSameSumHaveAnotherText) {
  const std::uint64_t some = pack_counts(std::vector<std::size_t>{3, 4});
  const std::uint64_t others = pack_counts(std::vector<std::size_t>{4, 3});
  EXPECT_NE(some, others);
  EXPECT_NE(text_of(some), text_of(others));
}

TEST(PartCounts, ASumThatIsTooLargeIsNotShown) {
  const std::size_t half = std::size_t{1} << 39;
  EXPECT_FALSE(unpack_counts(pack_counts(std::vector<std::size_t>{half, half}))->sum);
}

TEST(PartCounts, TheRecorderNotesThem) {
  Recorder recorder("world", 0, 2);
  const std::vector<std::size_t> counts = {5, 6};
  recorder.begin(0, {.operation = Operation::kAllgather, .count = 5, .counts = counts},
                 Algorithm::kRing, {});
  EXPECT_NE(recorder.text({}).find("#0 allgather of 11 uint8 in parts by rank (counts "),
            std::string::npos)
      << recorder.text({});
}

}  // namespace
}  // namespace tally
