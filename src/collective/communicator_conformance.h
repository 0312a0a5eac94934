#pragma once
// The conformance suite of communicators: every test runs over every transport and number of ranks.
// The results of operations are in communicator_test.cc, their behaviour in
// communicator_conduct_test.cc; the settings are in communicator_settings_test.cc and, for
// engine=mpi, in tests/process/mpi/.
#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collective/test_jobs.h"
#include "tally/communicator.h"

namespace tally::collective {

struct Setting {
  Network network;
  int ranks;
};

inline std::string print(const testing::TestParamInfo<Setting>& info) {
  return name_of(info.param.network) + "_" + std::to_string(info.param.ranks);
}

class CommunicatorConformance : public testing::TestWithParam<Setting> {
 protected:
  int ranks() const { return GetParam().ranks; }
  void run(const std::function<void(Communicator&)>& body) const {
    run_ranks(GetParam().network, ranks(), [&body](Job& job) { body(job.world()); });
  }
  // A counter that all ranks see, zero at first. One test asks for one.
  std::atomic<int>& counter() {
    if (!ranks_are_processes(GetParam().network)) return counter_;
    ThisProcess& process = this_process();
    return process.counters[process.counters_used++];
  }
  bool one_host() const {
    const Network network = GetParam().network;
    return network == Network::kInProcess || network == Network::kShm ||
           network == Network::kMpiShm;
  }
  // All-reduce algorithms that this placement has.
  std::vector<Algorithm> algorithms() const {
    std::vector<Algorithm> all = {Algorithm::kAuto, Algorithm::kRing, Algorithm::kHalvingDoubling,
                                  Algorithm::kTree};
    const Network network = GetParam().network;
    // An MPI library chooses by itself.
    if (network == Network::kMpi || network == Network::kMpiTwoHosts) all = {Algorithm::kAuto};
    const bool hosts = network == Network::kTwoHosts || network == Network::kUnevenHosts ||
                       network == Network::kMpiTwoHosts;
    if (one_host()) all.push_back(Algorithm::kDirect);
    if (hosts && ranks() > 2) all.push_back(Algorithm::kHierarchical);
    return all;
  }
  std::vector<std::size_t> counts() const {
    const auto n = static_cast<std::size_t>(ranks());
    return {0, 1, n - 1, n, n + 1, 1000, 70001};
  }

 private:
  std::atomic<int> counter_{0};
};

// The value of rank `rank` in element `i`: small integers, so that every order of addition is
// exact.
inline int value(Rank rank, std::size_t i) {
  return static_cast<int>((static_cast<std::size_t>(rank) * 7 + i * 3) % 5) + 1;
}

inline double combined(ReduceOp op, int ranks, std::size_t i) {
  double result = value(0, i);
  for (Rank rank = 1; rank < ranks; ++rank) {
    const double next = value(rank, i);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += next;
        break;
      case ReduceOp::kMin:
        result = std::min(result, next);
        break;
      case ReduceOp::kMax:
        result = std::max(result, next);
        break;
      case ReduceOp::kProduct:
        result *= next;
        break;
    }
  }
  return op == ReduceOp::kAverage ? result / ranks : result;
}

template <typename T>
std::vector<T> inputs(Rank rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(value(rank, i));
  return values;
}

}  // namespace tally::collective
