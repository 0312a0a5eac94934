#include "base/cpu.h"

#include <gtest/gtest.h>

namespace tally {
namespace {

TEST(Cpu, ASetCountsTheProcessorsOfAllItsWords) {
  CpuSet cpus{};
  EXPECT_EQ(count(cpus), 0);
  cpus.front() = 0b1011;
  cpus.back() = std::uint64_t{1} << 63;
  EXPECT_EQ(count(cpus), 4);
}

TEST(Cpu, OfNoKnownProcessorsOneIsUsable) { EXPECT_EQ(usable_cores(CpuSet{}), 1); }

TEST(Cpu, AProcessAloneHasWhatItMayUse) {
  EXPECT_EQ(usable_cores(cpus_of_process()), usable_cores());
}

}  // namespace
}  // namespace tally
