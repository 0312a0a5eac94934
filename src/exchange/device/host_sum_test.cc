#include <gtest/gtest.h>

#include "base/errors.h"
#include "exchange/device/device_exchange_test_support.h"

namespace tally::exchange {
namespace {

// Ordinary memory that cannot be read once.
class OnceUnreadableDevice final : public TestDevice {
 public:
  Result<void> read(std::span<std::byte> to, const std::byte* from) override {
    if (std::exchange(fails_, false)) return make_error(ErrorCode::kSystem, kNoRank, "Xid 79");
    return TestDevice::read(to, from);
  }

 private:
  bool fails_ = true;
};

TEST(HostSum, EndsWithItsFirstError) {
  collective::run_ranks(collective::Network::kInProcess, 2, [](Job& job) {
    OnceUnreadableDevice device;
    const std::vector<DeviceSum::Array> arrays = {{DataType::kFloat32, 10}};
    const auto sum = host_sum_maker()(job.world(), device, arrays, soon());
    ASSERT_TRUE(sum.has_value());
    ASSERT_TRUE((*sum)->start(0).has_value());
    for (const Result<void>& outcome :
         {(*sum)->finish(soon()), (*sum)->start(0), (*sum)->finish(soon())}) {
      ASSERT_FALSE(outcome.has_value());
      EXPECT_EQ(outcome.error().message, "Xid 79");
    }
  });
}

}  // namespace
}  // namespace tally::exchange
