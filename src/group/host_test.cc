#include "group/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::group {
namespace {

const std::vector<InterfaceAddress> kAddresses = {
    {.interface = "lo", .address = "127.0.0.1", .is_loopback = true},
    {.interface = "lo", .address = "::1", .is_ipv6 = true, .is_loopback = true},
    {.interface = "docker0", .address = "172.17.0.1"},
    {.interface = "eth1", .address = "fe80::1", .is_ipv6 = true, .is_link_local = true},
    {.interface = "eth1", .address = "fd00::7", .is_ipv6 = true},
    {.interface = "eth0", .address = "169.254.3.4", .is_link_local = true},
    {.interface = "eth0", .address = "10.1.2.3"}};

TEST(OwnAddress, IsTheFirstThatOthersCanReach) {
  EXPECT_EQ(*choose_address(kAddresses, ""), "10.1.2.3");
  EXPECT_EQ(*choose_address({kAddresses.begin(), kAddresses.begin() + 5}, ""), "fd00::7");
  EXPECT_EQ(*choose_address({kAddresses.begin(), kAddresses.begin() + 4}, ""), "127.0.0.1");
}

TEST(OwnAddress, InterfaceOrAddressCanBeChosen) {
  EXPECT_EQ(*choose_address(kAddresses, "eth1"), "fd00::7");
  EXPECT_EQ(*choose_address(kAddresses, "docker0"), "172.17.0.1");
  EXPECT_EQ(*choose_address(kAddresses, "lo"), "127.0.0.1");
  EXPECT_EQ(*choose_address(kAddresses, "192.0.2.9"), "192.0.2.9");
  EXPECT_EQ(*choose_address(kAddresses, "fd00::8"), "fd00::8");
  EXPECT_EQ(*choose_address(kAddresses, "node.example"), "node.example");
}

TEST(OwnAddress, UnknownInterfaceIsNamedWithTheKnownOnes) {
  const auto chosen = choose_address(kAddresses, "ib0");
  ASSERT_FALSE(chosen.has_value());
  EXPECT_EQ(chosen.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(chosen.error().message, testing::HasSubstr("ib0"));
  EXPECT_THAT(chosen.error().message, testing::HasSubstr("lo docker0 eth1 eth0"));
}

TEST(OwnAddress, SystemHasAtLeastLoopback) {
  const auto addresses = interface_addresses();
  ASSERT_TRUE(addresses.has_value());
  EXPECT_TRUE(std::any_of(addresses->begin(), addresses->end(),
                          [](const auto& each) { return each.is_loopback; }));
}

}  // namespace
}  // namespace tally::group
