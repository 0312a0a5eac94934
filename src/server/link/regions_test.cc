#include "server/link/regions.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <gtest/gtest.h>

namespace tally::server {
namespace {

Descriptor file_of(std::size_t bytes, int seals) {
  Descriptor memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(memory.descriptor(), static_cast<off_t>(bytes)), 0);
  if (seals != 0 && ::fcntl(memory.descriptor(), F_ADD_SEALS, seals) != 0) ADD_FAILURE();
  return memory;
}

Descriptor copy_of(int descriptor) { return Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

TEST(OwnRegions, SmallPiecesShareARegionAndAreFound) {
  OwnRegions regions;
  const auto first = regions.allocate(100);
  const auto second = regions.allocate(5000);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->size(), 100U);
  EXPECT_EQ(region_of(regions.find(*first)), 1);
  EXPECT_EQ(region_of(regions.find(*second)), 1);
  EXPECT_EQ(offset_of(regions.find(*second)), 128U);
  const auto large = regions.allocate(std::size_t{64} << 20);
  ASSERT_TRUE(large.has_value());
  EXPECT_EQ(region_of(regions.find(*large)), 2);
  EXPECT_EQ(regions.region(2).bytes().size(), std::size_t{64} << 20);
  // The rest of the first region is still available.
  const auto third = regions.allocate(8);
  ASSERT_TRUE(third.has_value());
  EXPECT_EQ(region_of(regions.find(*third)), 1);
}

TEST(OwnRegions, OtherMemoryIsNowhere) {
  OwnRegions regions;
  const auto mine = regions.allocate(std::size_t{4} << 20);
  ASSERT_TRUE(mine.has_value());
  std::vector<std::byte> other(64);
  EXPECT_EQ(regions.find(other), 0U);
  EXPECT_EQ(regions.find({}), 0U);
  EXPECT_EQ(regions.find(std::span(mine->data() + 8, mine->size())), 0U);  // beyond its end
  EXPECT_EQ(regions.find(mine->subspan(4, 8)), 0U);                        // not aligned
}

TEST(ShownRegions, ShareWhatTheOwnerWrites) {
  OwnRegions own;
  const auto memory = own.allocate(4096);
  ASSERT_TRUE(memory.has_value());
  ShownRegions shown;
  const Mapping& region = own.region(1);
  ASSERT_TRUE(shown.add(copy_of(region.descriptor()), region.bytes().size()).has_value());
  (*memory)[17] = std::byte{99};
  const auto seen = shown.resolve(own.find(*memory), 4096);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ((*seen)[17], std::byte{99});
}

// A process that reads beyond the end of a truncated file gets SIGBUS.
TEST(ShownRegions, MemoryThatCanShrinkIsRefused) {
  ShownRegions shown;
  EXPECT_FALSE(shown.add(file_of(4096, 0), 4096).has_value());
  EXPECT_FALSE(shown.add(file_of(4096, F_SEAL_GROW), 4096).has_value());
  EXPECT_FALSE(shown.add(file_of(4096, F_SEAL_SHRINK | F_SEAL_WRITE), 4096).has_value());
  EXPECT_FALSE(shown.add(Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)), 4096).has_value());
  EXPECT_FALSE(shown.add(Descriptor(), 4096).has_value());
  EXPECT_TRUE(shown.add(file_of(4096, F_SEAL_SHRINK), 4096).has_value());
}

TEST(ShownRegions, ASizeThatIsNotTrueIsRefused) {
  ShownRegions shown;
  EXPECT_FALSE(shown.add(file_of(4096, F_SEAL_SHRINK), 8192).has_value());
  EXPECT_FALSE(shown.add(file_of(4096, F_SEAL_SHRINK), 0).has_value());
  EXPECT_FALSE(shown.add(file_of(0, F_SEAL_SHRINK), 0).has_value());
}

TEST(ShownRegions, PlacesOutsideAreRefused) {
  ShownRegions shown;
  ASSERT_TRUE(shown.add(file_of(8192, F_SEAL_SHRINK), 8192).has_value());
  const auto at = [](std::uint64_t region, std::uint64_t offset) {
    return (region << 48) | offset;
  };
  EXPECT_TRUE(shown.resolve(at(1, 0), 8192).has_value());
  EXPECT_TRUE(shown.resolve(at(1, 8192), 0).has_value());
  EXPECT_TRUE(shown.resolve(at(1, 8184), 8).has_value());
  EXPECT_FALSE(shown.resolve(at(1, 8), 8192).has_value());
  EXPECT_FALSE(shown.resolve(at(1, 8200), 0).has_value());
  EXPECT_FALSE(shown.resolve(at(1, (std::uint64_t{1} << 48) - 8), 16).has_value());
  EXPECT_FALSE(shown.resolve(at(1, 4), 4).has_value());
  EXPECT_FALSE(shown.resolve(at(0, 8), 8).has_value());
  EXPECT_FALSE(shown.resolve(at(2, 0), 8).has_value());
}

}  // namespace
}  // namespace tally::server
