#include "base/units.h"

#include <gtest/gtest.h>

namespace tally {
namespace {

using namespace std::chrono_literals;

TEST(Units, ReadsSizes) {
  const std::pair<const char*, std::size_t> cases[] = {{"0", 0},
                                                       {"17", 17},
                                                       {"17B", 17},
                                                       {"1kB", 1000},
                                                       {"1KB", 1000},
                                                       {"2 MB", 2'000'000},
                                                       {"1.5GB", 1500000000},
                                                       {"1TB", 1000000000000},
                                                       {"4KiB", 4096},
                                                       {"100MiB", 104857600},
                                                       {"0.5GiB", 536870912},
                                                       {"2TiB", std::size_t{2} << 40}};
  for (const auto& [text, bytes] : cases) {
    const auto parsed = parse_bytes(text);
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(Units, ReadsBandwidths) {
  const std::pair<const char*, double> cases[] = {
      {"12.5GB/s", 12.5e9}, {"100Gbit/s", 12.5e9}, {"1MiB/s", 1048576}, {"8 bit/s", 1}};
  for (const auto& [text, rate] : cases) {
    const auto parsed = parse_bytes_per_second(text);
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_DOUBLE_EQ(*parsed, rate) << text;
  }
}

TEST(Units, ReadsTimes) {
  const std::pair<const char*, Duration> cases[] = {
      {"0", 0ns}, {"5us", 5us}, {"1.5ms", 1500us}, {"30 s", 30s}, {"2min", 2min}, {"1h", 1h}};
  for (const auto& [text, duration] : cases) {
    const auto parsed = parse_duration(text);
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_EQ(*parsed, duration) << text;
  }
}

TEST(Units, RefusesWhatIsNotAQuantity) {
  for (const char* text : {"", "MiB", "-1B", "1QB", "nan", "inf", "1e30TB", "1MiB/s", "1 2B"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid);
    EXPECT_NE(parsed.error().message.find(text), std::string::npos);
  }
  for (const char* text : {"", "1", "1GB", "0GB/s", "1/s", "-1GB/s", "1e308TB/s"}) {
    EXPECT_FALSE(parse_bytes_per_second(text).has_value()) << text;
  }
  for (const char* text : {"", "5", "5 parsecs", "-5us", "1e20s"}) {
    EXPECT_FALSE(parse_duration(text).has_value()) << text;
  }
}

TEST(Units, WritesWhatItReads) {
  EXPECT_EQ(format_bytes(0), "0B");
  EXPECT_EQ(format_bytes(1023), "1023B");
  EXPECT_EQ(format_bytes(104857600), "100MiB");
  EXPECT_EQ(format_bytes(1610612736), "1.5GiB");
  EXPECT_EQ(format_bytes_per_second(12.5e9), "12.5GB/s");
  EXPECT_EQ(format_bytes_per_second(999), "999B/s");
  EXPECT_EQ(format_duration(0ns), "0ns");
  EXPECT_EQ(format_duration(5us), "5us");
  EXPECT_EQ(format_duration(16780us), "16.78ms");
  EXPECT_EQ(format_duration(-90500ms), "-90.5s");
}

}  // namespace
}  // namespace tally
