#include "apps/tally/doctor/doctor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/units.h"

namespace tally::app::doctor {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;
// A rank needs one descriptor per peer on other hosts, and a few more.
constexpr std::uint64_t kEnoughOpenFiles = 4096;
constexpr std::uint64_t kSmallShmBytes = 256 * kMiB;
constexpr std::uint64_t kSmallBufferBytes = 4 * kMiB;
// The logs of hosts whose clocks differ by more are hard to compare. Merged traces are not
// affected: their times are corrected by the clock offsets that heartbeats measure.
constexpr double kClockSkewMs = 100;

// One function per check. Each first describes what it found, and then raises the level and adds
// advice if a job would suffer.

Finding raised(Finding finding, Level level, std::string advice) {
  finding.level = level;
  finding.advice = std::move(advice);
  return finding;
}

Finding cores(const MachineFacts& facts) {
  Finding finding{.subject = "cores",
                  .what = fmt::format("{} of {} usable", facts.cores_allowed, facts.cores_online)};
  if (!facts.processor.empty()) finding.what += ", " + facts.processor;
  if (!facts.cores_quota || *facts.cores_quota >= facts.cores_allowed) return finding;
  finding.what = fmt::format("{} cores are seen, and the container may use the time of {:.1f}",
                             facts.cores_allowed, *facts.cores_quota);
  return raised(finding, Level::kSlow,
                fmt::format("start at most {} workers, or raise the container's CPU limit",
                            std::max(1, static_cast<int>(*facts.cores_quota))));
}

Finding load(const MachineFacts& facts) {
  Finding finding{.subject = "load", .what = fmt::format("{:.2f} in the last minute", facts.load)};
  if (facts.load <= 0.5 * facts.cores_allowed) return finding;
  return raised(finding, Level::kSlow,
                "other programs use these cores: every step waits for the slowest worker");
}

Finding numa(const MachineFacts& facts) {
  Finding finding{.subject = "NUMA", .what = fmt::format("{} node(s)", facts.numa_nodes)};
  if (facts.numa_nodes <= 1) return finding;
  const std::string advice = "tally run --bind cores keeps each worker on one node";
  if (!facts.numa_balancing) return raised(finding, Level::kNote, advice);
  finding.what += ", automatic balancing is on";
  return raised(
      finding, Level::kSlow,
      advice + "; sysctl kernel.numa_balancing=0 stops the kernel from moving its memory");
}

Finding clock(const MachineFacts& facts) {
  Finding finding{.subject = "clock", .what = facts.clock_source};
  const bool is_slow_source = facts.clock_source == "hpet" || facts.clock_source == "acpi_pm" ||
                              facts.clock_source == "xen" || facts.clock_source == "jiffies";
  if (is_slow_source)
    return raised(finding, Level::kSlow,
                  "reading this clock is slow and every operation does it twice: use tsc");
  if (facts.clock_synchronised) return finding;
  finding.what += ", not synchronised with a time server";
  return raised(finding, Level::kNote,
                "for jobs over several hosts: run chrony, so that their logs can be compared");
}

Finding governor(const MachineFacts& facts) {
  Finding finding{.subject = "frequency",
                  .what = facts.governor.empty() ? "unknown" : facts.governor};
  if (facts.governor != "powersave") return finding;
  return raised(finding, Level::kNote,
                "short operations suffer: cpupower frequency-set -g performance");
}

Finding memory(const MachineFacts& facts) {
  Finding finding{.subject = "memory",
                  .what = fmt::format("{}, {} available", format_bytes(facts.memory_bytes),
                                      format_bytes(facts.memory_available_bytes))};
  if (!facts.memory_limit_bytes || *facts.memory_limit_bytes >= facts.memory_bytes) return finding;
  finding.what =
      fmt::format("{}, of which the container may use {}", format_bytes(facts.memory_bytes),
                  format_bytes(*facts.memory_limit_bytes));
  return raised(finding, Level::kNote, "shared buffers count against that limit");
}

Finding shared_memory(const MachineFacts& facts) {
  if (!facts.memfd_works) {
    return {.level = Level::kProblem,
            .subject = "shared memory",
            .what = "memfd_create() is not allowed",
            .advice = "allow it in the container's seccomp profile, or set TALLY_TRANSPORT=tcp"};
  }
  Finding finding{.subject = "shared memory", .what = "anonymous files work"};
  if (!facts.dev_shm_bytes || *facts.dev_shm_bytes >= kSmallShmBytes) return finding;
  finding.what += fmt::format("; /dev/shm has {}", format_bytes(*facts.dev_shm_bytes));
  return raised(
      finding, Level::kNote,
      "Tally does not use /dev/shm, MPI, NCCL and data loaders do: docker run --shm-size=1g");
}

Finding huge_pages(const MachineFacts& facts) {
  const std::string& setting = facts.huge_pages_shared;
  Finding finding{
      .subject = "huge pages",
      .what = setting.empty() ? "not offered for shared memory" : "for shared memory: " + setting};
  if (setting != "never" && setting != "deny") return finding;
  return raised(
      finding, Level::kSlow,
      "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (root): large buckets "
      "then cost fewer page faults");
}

Finding open_files(const MachineFacts& facts) {
  Finding finding{.subject = "open files",
                  .what = fmt::format("at most {} per process", facts.open_files_limit)};
  if (facts.open_files_limit >= kEnoughOpenFiles) return finding;
  return raised(finding, Level::kNote,
                fmt::format("enough for about {} ranks on other hosts; ulimit -n {} for more",
                            facts.open_files_limit / 2, kEnoughOpenFiles));
}

Finding process_handles(const MachineFacts& facts) {
  if (facts.pidfd_works) return {.subject = "process handles", .what = "work"};
  return {.level = Level::kProblem,
          .subject = "process handles",
          .what = "pidfd_open() is not there: kernel " + facts.kernel,
          .advice = "Linux 5.3 or newer, or allow it in the container's seccomp profile"};
}

Finding network(const MachineFacts& facts) {
  if (!facts.loopback_works) {
    return {.level = Level::kProblem,
            .subject = "network",
            .what = "no loopback interface",
            .advice = "ip link set lo up"};
  }
  Finding finding{.subject = "network", .what = "loopback works; host name " + facts.host_name};
  if (!facts.host_name_resolves) {
    finding.what += " has no address";
    return raised(finding, Level::kNote,
                  "for jobs over several hosts: give it one in /etc/hosts, or use --master-addr");
  }
  if (!facts.host_name_is_loopback) return finding;
  finding.what += " is a loopback address";
  return raised(finding, Level::kNote,
                "for jobs over several hosts: other hosts need another address for rank 0");
}

Finding socket_buffers(const MachineFacts& facts) {
  Finding finding{.subject = "socket buffers",
                  .what = fmt::format("up to {}", format_bytes(facts.receive_buffer_max_bytes))};
  if (facts.receive_buffer_max_bytes >= kSmallBufferBytes) return finding;
  return raised(finding, Level::kNote,
                "for fast links between hosts: sysctl net.core.rmem_max=16777216 "
                "net.core.wmem_max=16777216");
}

// `advice` says what the software is for and how to install it.
Finding optional_software(const std::string& subject, const std::string& version,
                          const std::string& advice) {
  if (!version.empty()) return {.subject = subject, .what = version};
  return {.level = Level::kNote, .subject = subject, .what = "not found", .advice = advice};
}

Finding gpu(const SoftwareFacts& facts) {
  if (!facts.gpu_trouble.empty()) {
    return {.level = Level::kSlow,
            .subject = "CUDA",
            .what = facts.gpu_trouble,
            .advice = "see dmesg; the driver and its libraries must have the same version"};
  }
  if (facts.gpu.empty() && facts.cuda_library.empty())
    return {.level = Level::kNote, .subject = "CUDA", .what = "not found: training on processors"};
  Finding finding{.subject = "CUDA",
                  .what = facts.gpu.empty() ? facts.cuda_library + " and no GPU" : facts.gpu};
  if (!facts.nccl_library.empty() || facts.gpu.empty()) return finding;
  finding.what += "; no NCCL";
  return raised(finding, Level::kNote, "install libnccl2 for collectives between GPUs");
}

Finding blas(const SoftwareFacts& facts) {
  if (facts.blas.empty()) return {.subject = "BLAS", .what = "none for the system"};
  Finding finding{.subject = "BLAS", .what = facts.blas};
  // Debian's reference BLAS lies in the folder blas/.
  if (facts.blas.find("/blas/libblas.so") == std::string::npos) return finding;
  return raised(finding, Level::kSlow,
                "the reference BLAS is many times slower: apt-get install libopenblas0-pthread");
}

}  // namespace

std::string_view to_string(Level level) {
  constexpr std::array<std::string_view, 4> kWords = {"ok", "note", "slow", "PROBLEM"};
  return kWords.at(static_cast<std::size_t>(level));
}

Findings judge_machine(const MachineFacts& facts) {
  return {cores(facts),           load(facts),       numa(facts),
          clock(facts),           governor(facts),   memory(facts),
          shared_memory(facts),   huge_pages(facts), open_files(facts),
          process_handles(facts), network(facts),    socket_buffers(facts)};
}

Findings judge_software(const SoftwareFacts& facts) {
  Finding torch = optional_software(
      "libtorch", facts.libtorch, "for trainings of libtorch models: apt-get install libtorch-dev");
  if (!facts.libtorch_path.empty()) torch.what += ", " + facts.libtorch_path;
  return {
      optional_software("Open MPI", facts.open_mpi, "for engine=mpi: apt-get install openmpi-bin"),
      optional_software("MPICH", facts.mpich, "for engine=mpi: apt-get install mpich"),
      optional_software("Slurm", facts.slurm, "only where Slurm places the jobs: srun"),
      optional_software("ssh", facts.ssh, "for tally run --hosts: apt-get install openssh-client"),
      gpu(facts),
      torch,
      blas(facts)};
}

Findings judge_peer(const PeerFacts& facts) {
  const std::string subject = "host " + facts.host;
  if (!facts.trouble.empty()) {
    return {{.level = Level::kProblem,
             .subject = subject,
             .what = facts.trouble,
             .advice = fmt::format("try it by hand: ssh {} true; --remote-shell and "
                                   "--remote-tally say how else to reach it",
                                   facts.host)}};
  }
  Findings findings;
  for (const PeerFacts::Path& path : facts.paths) {
    Finding finding{.subject = subject,
                    .what = fmt::format("from {}: connected, round trip {:.2f} ms", path.from,
                                        path.round_trip_ms)};
    if (!path.trouble.empty()) {
      finding.what = fmt::format("from {}: {}", path.from, path.trouble);
      finding = raised(finding, Level::kProblem,
                       fmt::format("a firewall may be in the way: workers on {} and {} need TCP "
                                   "between any ports above 1024",
                                   path.from, facts.host));
    }
    findings.push_back(std::move(finding));
  }
  if (!facts.clock) return findings;
  Finding skew{.subject = subject,
               .what = fmt::format("its clock is {:+.1f} ms off ours, give or take {:.1f} ms",
                                   facts.clock->ahead_ms, facts.clock->uncertainty_ms)};
  if (std::abs(facts.clock->ahead_ms) - facts.clock->uncertainty_ms > kClockSkewMs)
    skew = raised(skew, Level::kNote, "logs of the hosts will not line up: run chrony on both");
  findings.push_back(std::move(skew));
  return findings;
}

}  // namespace tally::app::doctor
