#include <gtest/gtest.h>

#include "adapters/cuda/peer_sum.h"
#include "adapters/cuda/test_memory_export.h"
#include "exchange/device/device_exchange_test_support.h"

// The exchange of ranks that read one total: none of them may change it.
namespace tally::cuda {
namespace {

using collective::Network;

TEST(PeerExchange, RanksOfOneGpuUpdateAsTheGroupDoes) {
  NoMemoryExport between;
  const exchange::OnDevices on{
      .make_sum = [&between](Communicator& world, exchange::Device& device,
                             const std::vector<exchange::DeviceSum::Array>& arrays, Deadline by) {
        return make_peer_sum(world, device, between, arrays, by);
      }};
  for (const char* const optimizer :
       {"momentum:rate=0.1", "adamw:rate=0.01", "lamb:rate=0.01", "lars:rate=0.1"}) {
    SCOPED_TRACE(optimizer);
    auto options = exchange::encoded_model("none", *parse_optimizer(optimizer));
    options.clip_norm = 0.5;
    const exchange::Course course{.steps = 8};
    const auto expected = exchange::train(Network::kInProcess, 3, options, course)[0];
    const auto trained = exchange::train_on_devices(Network::kInProcess, 3, options, course, on);
    EXPECT_LT(exchange::largest_difference(trained[0], expected), 1e-5);
    EXPECT_TRUE(trained[1] == trained[0] && trained[2] == trained[0]);
  }
}

}  // namespace
}  // namespace tally::cuda
