#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adapters/nccl/nccl_communicator.h"
#include "adapters/nccl/test_copies.h"
#include "adapters/nccl/test_ranks.h"
#include "collective/communicator_conformance.h"
#include "soon.h"

// The conformance suite of communicators over NcclCommunicator.
namespace tally::collective {

class NcclConformance : public CommunicatorConformance {
 protected:
  void run(const std::function<void(Communicator&)>& body) const {
    nccl::on_ranks(ranks(), [&body](const nccl::TestRank& rank) {
      auto made = nccl::NcclCommunicator::make(rank.control, rank.gpu, soon());
      ASSERT_TRUE(made.has_value()) << to_string(made.error());
      const auto world = nccl::over_copies(std::move(*made), rank.gpu);
      body(*world);
    });
  }
  std::atomic<int>& counter() const { return nccl::new_counter(); }
  bool one_host() const { return false; }  // no rank sees memory of another
  std::vector<Algorithm> algorithms() const { return {Algorithm::kAuto}; }
};

namespace {

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const int ranks : nccl::rank_counts())
    all.push_back({.network = Network::kInProcess, .ranks = ranks});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Nccl, NcclConformance, testing::ValuesIn(settings()),
                         [](const testing::TestParamInfo<Setting>& setting) {
                           return std::to_string(setting.param.ranks);
                         });

}  // namespace
}  // namespace tally::collective

// The tests of the suite, which name the fixture of Tally's own transports.
#define CommunicatorConformance NcclConformance
#include "collective/communicator_conduct_test.cc"
#include "collective/communicator_test.cc"
#undef CommunicatorConformance
