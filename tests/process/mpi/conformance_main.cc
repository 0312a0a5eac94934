// The conformance suite of communicators over engine=mpi. mpirun starts it; each process is one
// rank and runs all tests, in step with the others.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collective/communicator_conformance.h"

namespace tally::collective {
namespace {

// A test that engine=mpi cannot pass, and the reason. On one host the world is our own
// communicator, which passes it.
struct Exclusion {
  std::string test;
  std::string network;
  std::string reason;
};

std::vector<Setting> settings() {
  const int ranks = this_process().ranks;
  if (ranks == 1) return {{Network::kMpi, 1}};  // a rank alone shares no memory
  return {{Network::kMpi, ranks}, {Network::kMpiShm, ranks}, {Network::kMpiTwoHosts, ranks}};
}

std::vector<Exclusion> exclusions() {
  std::vector<Exclusion> all;
  for (const Setting& setting : settings()) {
    if (setting.network == Network::kMpiShm) continue;
    const std::string network = name_of(setting.network);
    all.push_back({"TrafficMatchesTheFormulas", network,
                   "MPI does not tell what it sends, and chooses the algorithm itself"});
    all.push_back({"DifferentCountsAreAMismatchThatNamesBothSides", network,
                   "MPI does not compare what ranks ask for: the outcome is undefined"});
    all.push_back({"DifferentOperationsAreAMismatch", network,
                   "MPI does not compare what ranks ask for: the outcome is undefined"});
    all.push_back({"ARankThatStaysAwayIsNamedAtTheDeadline", network,
                   "MPI cannot tell which rank is missing, and a late collective ends all "
                   "communicators: tests/process/mpi/failures_test.cc tests that"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorConformance, testing::ValuesIn(settings()), print);

std::set<std::string> registered_tests() {
  std::set<std::string> names;
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  for (int s = 0; s < unit.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *unit.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t)
      names.insert(fmt::format("{}.{}", suite.name(), suite.GetTestInfo(t)->name()));
  }
  return names;
}

// Removes the excluded tests from the filter and prints them. False if one of them does not exist.
bool exclude() {
  const std::set<std::string> names = registered_tests();
  std::string filter = testing::GTEST_FLAG(filter);
  filter += filter.find('-') == std::string::npos ? "-" : ":";
  bool known = true;
  for (const Exclusion& exclusion : exclusions()) {
    const std::string name = fmt::format("Mpi/CommunicatorConformance.{}/{}_{}", exclusion.test,
                                         exclusion.network, this_process().ranks);
    if (!names.contains(name)) {
      fmt::print(stderr, "excluded, but there is no such test: {}\n", name);
      known = false;
    }
    if (this_process().rank == 0) fmt::print("excluded: {}: {}\n", name, exclusion.reason);
    filter += name + ":";
  }
  testing::GTEST_FLAG(filter) = filter;
  return known;
}

// Maps memory that all ranks share: a file that is unlinked before the tests run.
Result<void> share_counters(Communicator& world) {
  constexpr std::size_t kCounters = 1024;
  constexpr std::size_t kBytes = kCounters * sizeof(std::atomic<int>);
  std::array<std::uint8_t, 256> path{};
  auto* const name = reinterpret_cast<char*>(path.data());
  int file = -1;
  if (world.rank() == 0) {
    fmt::format_to_n(name, path.size() - 1, "{}tally_mpi_XXXXXX", testing::TempDir());
    file = mkstemp(name);
    if (file < 0 || ftruncate(file, kBytes) != 0)
      return Error{.code = ErrorCode::kSystem, .message = "no temporary file"};
  }
  TALLY_TRY(world.broadcast(std::span<std::uint8_t>(path), 0));
  if (world.rank() != 0) file = open(name, O_RDWR | O_CLOEXEC);
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  TALLY_TRY(world.barrier());
  if (world.rank() == 0) unlink(name);
  close(file);
  if (memory == MAP_FAILED)
    return Error{.code = ErrorCode::kSystem, .message = "cannot map the counters"};
  this_process().counters = {static_cast<std::atomic<int>*>(memory), kCounters};
  return {};
}

// Rank 0 prints the progress of the tests; the other ranks print failures only.
class FailurePrinter final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* const file = result.file_name() == nullptr ? "?" : result.file_name();
    fmt::print(stderr, "rank {}: {}:{}: {}\n", this_process().rank, file, result.line_number(),
               result.message());
  }
};

int run_all(int argc, char** argv) {
  // This job keeps MPI in use until the end.
  auto anchor = Job::join(options_for(Network::kMpi, 0, 1, 0));
  if (!anchor.has_value()) {
    fmt::print(stderr, "{}\n", to_string(anchor.error()));
    return 1;
  }
  this_process().rank = (*anchor)->rank();
  this_process().ranks = (*anchor)->size();
  const auto shared = share_counters((*anchor)->world());
  if (!shared.has_value()) {
    fmt::print(stderr, "{}\n", to_string(shared.error()));
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  if (!exclude()) return 1;
  if (this_process().rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace tally::collective

int main(int argc, char** argv) { return tally::collective::run_all(argc, argv); }
