#include "apps/tally/doctor/doctor.h"

#include <functional>

#include <gtest/gtest.h>

namespace tally::app::doctor {
namespace {

MachineFacts good_machine() {
  return {.kernel = "6.1",
          .processor = "a processor",
          .cores_online = 16,
          .cores_allowed = 16,
          .clock_source = "tsc",
          .memory_bytes = 64ULL << 30,
          .memory_available_bytes = 60ULL << 30,
          .huge_pages_shared = "advise",
          .open_files_limit = 1 << 20,
          .host_name = "node1",
          .receive_buffer_max_bytes = 16 << 20};
}

const Finding& finding_about(const Findings& findings, const std::string& subject) {
  for (const Finding& finding : findings)
    if (finding.subject == subject) return finding;
  ADD_FAILURE() << "nothing about " << subject;
  return findings.front();
}

TEST(Findings, AGoodMachineHasNothingToAdvise) {
  for (const Finding& finding : judge_machine(good_machine())) {
    EXPECT_EQ(finding.level, Level::kOk) << finding.subject << ": " << finding.what;
    EXPECT_EQ(finding.advice, "") << finding.subject;
    EXPECT_NE(finding.what, "") << finding.subject;
  }
}

struct Defect {
  std::string subject;
  Level level;
  std::string in_what;
  std::string in_advice;
  std::function<void(MachineFacts&)> make;
};

TEST(Findings, EachDefectIsNamedWithWhatToDo) {
  const std::vector<Defect> defects = {
      {"cores", Level::kSlow, "time of 1.5", "at most 1 workers",
       [](MachineFacts& m) { m.cores_quota = 1.5; }},
      {"load", Level::kSlow, "9.00", "slowest", [](MachineFacts& m) { m.load = 9; }},
      {"NUMA", Level::kNote, "2 node", "--bind cores", [](MachineFacts& m) { m.numa_nodes = 2; }},
      {"NUMA", Level::kSlow, "balancing is on", "numa_balancing=0",
       [](MachineFacts& m) {
         m.numa_nodes = 2;
         m.numa_balancing = true;
       }},
      {"clock", Level::kSlow, "hpet", "tsc", [](MachineFacts& m) { m.clock_source = "hpet"; }},
      {"clock", Level::kNote, "not synchronised", "chrony",
       [](MachineFacts& m) { m.clock_synchronised = false; }},
      {"frequency", Level::kNote, "powersave", "performance",
       [](MachineFacts& m) { m.governor = "powersave"; }},
      {"memory", Level::kNote, "may use 2GiB", "limit",
       [](MachineFacts& m) { m.memory_limit_bytes = 2ULL << 30; }},
      {"shared memory", Level::kProblem, "memfd_create", "TALLY_TRANSPORT=tcp",
       [](MachineFacts& m) { m.memfd_works = false; }},
      {"shared memory", Level::kNote, "64MiB", "--shm-size",
       [](MachineFacts& m) { m.dev_shm_bytes = 64 << 20; }},
      {"huge pages", Level::kSlow, "never", "shmem_enabled",
       [](MachineFacts& m) { m.huge_pages_shared = "never"; }},
      {"open files", Level::kNote, "1024", "ulimit",
       [](MachineFacts& m) { m.open_files_limit = 1024; }},
      {"process handles", Level::kProblem, "6.1", "5.3",
       [](MachineFacts& m) { m.pidfd_works = false; }},
      {"network", Level::kProblem, "loopback", "ip link",
       [](MachineFacts& m) { m.loopback_works = false; }},
      {"network", Level::kNote, "no address", "--master-addr",
       [](MachineFacts& m) { m.host_name_resolves = false; }},
      {"network", Level::kNote, "is a loopback", "rank 0",
       [](MachineFacts& m) { m.host_name_is_loopback = true; }},
      {"socket buffers", Level::kNote, "KiB", "rmem_max",
       [](MachineFacts& m) { m.receive_buffer_max_bytes = 212992; }},
  };
  for (const Defect& defect : defects) {
    MachineFacts machine = good_machine();
    defect.make(machine);
    const Findings findings = judge_machine(machine);
    const Finding& finding = finding_about(findings, defect.subject);
    EXPECT_EQ(finding.level, defect.level) << finding.what;
    EXPECT_NE(finding.what.find(defect.in_what), std::string::npos) << finding.what;
    EXPECT_NE(finding.advice.find(defect.in_advice), std::string::npos) << finding.advice;
  }
}

TEST(Findings, SoftwareThatIsThereIsNamedAndWhatIsMissingHasAReasonToInstallIt) {
  const Findings all = judge_software({.open_mpi = "4.1.4",
                                       .gpu = "NVIDIA H200, 580",
                                       .nccl_library = "libnccl.so.2",
                                       .libtorch = "1.13.1",
                                       .blas = "/usr/lib/openblas-pthread/libblas.so.3"});
  EXPECT_EQ(finding_about(all, "Open MPI").what, "4.1.4");
  EXPECT_EQ(finding_about(all, "MPICH").level, Level::kNote);
  EXPECT_NE(finding_about(all, "MPICH").advice, "");
  EXPECT_EQ(finding_about(all, "CUDA").level, Level::kOk);
  EXPECT_EQ(finding_about(all, "BLAS").level, Level::kOk);
}

TEST(Findings, ABrokenGpuAndTheReferenceBlasAreSlow) {
  const Findings all = judge_software(
      {.gpu_trouble = "no answer", .blas = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0"});
  EXPECT_EQ(finding_about(all, "CUDA").level, Level::kSlow);
  EXPECT_EQ(finding_about(all, "BLAS").level, Level::kSlow);
}

TEST(Findings, AHostThatCannotBeReachedOrCannotBeCalledIsAProblem) {
  const Findings unreachable = judge_peer({.host = "b", .trouble = "Permission denied"});
  ASSERT_EQ(unreachable.size(), 1U);
  EXPECT_EQ(unreachable[0].level, Level::kProblem);

  const Findings walled = judge_peer(
      {.host = "b",
       .paths = {{.from = "here", .round_trip_ms = 0.2}, {.from = "c", .trouble = "timed out"}}});
  ASSERT_EQ(walled.size(), 2U);
  EXPECT_EQ(walled[0].level, Level::kOk);
  EXPECT_EQ(walled[1].level, Level::kProblem);
  EXPECT_NE(walled[1].advice.find("firewall"), std::string::npos);
}

TEST(Findings, ClockSkewCountsOnlyBeyondWhatTheRoundTripLeavesOpen) {
  const auto level = [](const PeerFacts::Clock& clock) {
    return judge_peer({.host = "b", .clock = clock})[0].level;
  };
  EXPECT_EQ(level({.ahead_ms = -150, .uncertainty_ms = 1}), Level::kNote);
  EXPECT_EQ(level({.ahead_ms = 150, .uncertainty_ms = 80}), Level::kOk);
}

}  // namespace
}  // namespace tally::app::doctor
