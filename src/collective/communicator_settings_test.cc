#include <gtest/gtest.h>

#include "collective/communicator_conformance.h"

namespace tally::collective {
namespace {

INSTANTIATE_TEST_SUITE_P(
    All, CommunicatorConformance,
    testing::Values(Setting{Network::kInProcess, 1}, Setting{Network::kInProcess, 2},
                    Setting{Network::kInProcess, 5}, Setting{Network::kShm, 2},
                    Setting{Network::kShm, 3}, Setting{Network::kTcp, 1}, Setting{Network::kTcp, 2},
                    Setting{Network::kTcp, 5}, Setting{Network::kTcpTwoThreads, 2},
                    Setting{Network::kTcpTwoThreads, 5}, Setting{Network::kTls, 3},
                    Setting{Network::kTlsTwoThreads, 3}, Setting{Network::kTwoHosts, 4},
                    Setting{Network::kTwoHosts, 5}, Setting{Network::kUnevenHosts, 4}),
    print);

}  // namespace
}  // namespace tally::collective
