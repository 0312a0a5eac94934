#include "exchange/lane/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "codec/codec.h"

namespace tally::exchange {
namespace {

constexpr std::size_t kRun = codec::kRunElements;

BucketLayout bucket_of(const std::vector<std::size_t>& counts) {
  BucketLayout bucket;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    const std::size_t begin = (bucket.count + 15) / 16 * 16;
    bucket.count = begin + counts[p];
    bucket.entries.push_back({.parameter = p, .range = {begin, bucket.count}});
  }
  return bucket;
}

TEST(Runs, EndAtMultiplesOfTheirLengthInTheParameter) {
  const BucketLayout bucket = bucket_of({100, 2 * kRun + 5});
  struct Expected {
    std::size_t parameter;
    std::size_t first;
    std::size_t count;
  };
  const auto expect = [&](Range local, const std::vector<Expected>& expected) {
    const auto runs = runs_of(bucket, local, 1, 0);
    ASSERT_EQ(runs.size(), expected.size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      EXPECT_EQ(runs[i].parameter, expected[i].parameter);
      EXPECT_EQ(runs[i].first, expected[i].first);
      EXPECT_EQ(runs[i].count(), expected[i].count);
      EXPECT_EQ(runs[i].range.begin, bucket.entries[runs[i].parameter].range.begin + runs[i].first);
    }
  };
  expect({0, bucket.count}, {{0, 0, 100}, {1, 0, kRun}, {1, kRun, kRun}, {1, 2 * kRun, 5}});
  // For any begin and end of the part.
  expect({40, 112 + kRun + 1}, {{0, 40, 60}, {1, 0, kRun}, {1, kRun, 1}});
  expect({112 + kRun + 1, bucket.count}, {{1, kRun + 1, kRun - 1}, {1, 2 * kRun, 5}});
  expect({100, 112}, {});
  expect({5, 5}, {});
}

TEST(Runs, AreSharedEvenlyByTheirOwners) {
  const BucketLayout bucket = bucket_of({10 * kRun + 7, 30, 900, 3 * kRun});
  for (const int owners : {1, 2, 3, 4, 7}) {
    for (const std::size_t number : {0, 1, 5}) {
      std::map<int, std::size_t> loads;
      for (const auto& run : runs_of(bucket, {0, bucket.count}, owners, number))
        loads[run.owner] += run.count();
      EXPECT_EQ(loads.size(), static_cast<std::size_t>(owners));
      std::size_t least = bucket.count;
      std::size_t most = 0;
      for (const auto& [owner, load] : loads) {
        EXPECT_GE(owner, 0);
        EXPECT_LT(owner, owners);
        least = std::min(least, load);
        most = std::max(most, load);
      }
      EXPECT_LE(most - least, kRun);
    }
  }
}

// The single runs of many buckets go to different owners.
TEST(Runs, OfManySmallBucketsGoRound) {
  const BucketLayout bucket = bucket_of({50});
  for (std::size_t number = 0; number < 6; ++number)
    EXPECT_EQ(runs_of(bucket, {0, 50}, 3, number).at(0).owner, static_cast<int>(number % 3));
}

// Parts consist of whole entries, each entry once, rotated from bucket to bucket.
TEST(Runs, EntriesAreSharedAsAWhole) {
  for (const auto& counts : std::vector<std::vector<std::size_t>>{
           {500}, {10, 10, 10, 10}, {1000, 1, 1}, {1, 1, 1000}, {3, 200, 5, 90, 70}}) {
    const BucketLayout bucket = bucket_of(counts);
    for (const int parts : {1, 2, 3, 6}) {
      for (const std::size_t first : {0, 1, 2}) {
        std::vector<int> owners(counts.size());
        for (int index = 0; index < parts; ++index) {
          const Range part = entries_of(bucket, {.parts = parts, .index = index, .first = first});
          for (std::size_t e = 0; e < counts.size(); ++e) {
            const Range entry = bucket.entries[e].range;
            const bool inside = part.begin <= entry.begin && entry.end <= part.end;
            EXPECT_TRUE(inside || entry.end <= part.begin || part.end <= entry.begin);
            owners[e] += inside ? 1 : 0;
          }
        }
        EXPECT_THAT(owners, testing::Each(1));
      }
    }
  }
  const BucketLayout bucket = bucket_of({100, 100, 100, 100});
  EXPECT_EQ(entries_of(bucket, {.parts = 2, .index = 0}).end, bucket.entries[2].range.begin);
}

}  // namespace
}  // namespace tally::exchange
