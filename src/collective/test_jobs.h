#pragma once
// For tests: jobs over any transport. The ranks are threads of the test. With engine=mpi each rank
// is a process, which mpirun started.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "net/socket.h"
#include "tally/job.h"

namespace tally::collective {

enum class Network {
  kInProcess,
  kShm,
  kTcp,
  kTcpTwoThreads,
  kTls,
  kTlsTwoThreads,
  kTwoHosts,
  kUnevenHosts,
  kMpi,          // engine=mpi, MPI inside hosts as well
  kMpiShm,       // engine=mpi on one host, with shared memory
  kMpiTwoHosts,  // engine=mpi, shared memory inside two hosts and MPI across them
};

inline bool ranks_are_processes(Network network) {
  return network == Network::kMpi || network == Network::kMpiShm ||
         network == Network::kMpiTwoHosts;
}

inline std::string name_of(Network network) {
  switch (network) {
    case Network::kInProcess:
      return "in_process";
    case Network::kShm:
      return "shm";
    case Network::kTcp:
      return "tcp";
    case Network::kTcpTwoThreads:
      return "tcp_two_threads";
    case Network::kTls:
      return "tls";
    case Network::kTlsTwoThreads:
      return "tls_two_threads";
    case Network::kTwoHosts:
      return "two_hosts";
    case Network::kUnevenHosts:
      return "uneven_hosts";
    case Network::kMpi:
      return "mpi";
    case Network::kMpiShm:
      return "mpi_shm";
    case Network::kMpiTwoHosts:
      return "mpi_two_hosts";
  }
  return "unknown";
}

inline std::uint16_t free_port() {
  return net::Listener::bind({.host = "127.0.0.1", .port = 0})->address().port;
}

inline Secret test_secret(int seed) {
  Secret secret;
  secret.bytes.fill(static_cast<std::byte>(seed));
  return secret;
}

inline JobOptions options_for(Network network, Rank rank, int size, std::uint16_t port) {
  JobOptions options{.rank = rank, .size = size, .master_port = port};
  options.join_timeout = std::chrono::seconds(30);
  options.operation_timeout = std::chrono::seconds(60);
  options.dump_on_sigquit = false;
  if (network == Network::kShm) options.transport = TransportKind::kShm;
  const bool tcp = network == Network::kTcp || network == Network::kTcpTwoThreads;
  const bool tls = network == Network::kTls || network == Network::kTlsTwoThreads;
  if (tcp) options.transport = TransportKind::kTcp;
  if (tls) options.transport = TransportKind::kTls;
  if (tls) options.secret = test_secret(7);
  // Networks of both kinds are tested on every machine.
  const bool two_threads = network == Network::kTcpTwoThreads ||
                           network == Network::kTlsTwoThreads || network == Network::kUnevenHosts;
  options.tcp_threads = two_threads ? 2 : 1;
  if (ranks_are_processes(network)) {
    options.engine = Engine::kMpi;
    options.mpi_inside = network == Network::kMpi ? MpiInside::kMpi : MpiInside::kShm;
  }
  // Hosts a and b have the even and the odd ranks, or all ranks but the last and the last rank.
  if (network == Network::kTwoHosts || network == Network::kMpiTwoHosts)
    options.host_label = rank % 2 == 0 ? "a" : "b";
  if (network == Network::kUnevenHosts) options.host_label = rank + 1 < size ? "a" : "b";
  return options;
}

// The state of a rank that is a process; main() sets it before the tests run.
struct ThisProcess {
  Rank rank = 0;
  int ranks = 1;
  // Memory that all ranks share, initially zero, and the number of counters that the tests have
  // used.
  std::span<std::atomic<int>> counters;
  std::size_t counters_used = 0;
};
inline ThisProcess& this_process() {
  static ThisProcess process;
  return process;
}

// Runs `body` on every rank in a thread of its own and returns when all threads have ended. Where
// ranks are processes, runs `body` once, on the rank of this process.
inline void run_ranks(Network network, int size, const std::function<void(Job&)>& body) {
  if (ranks_are_processes(network)) {
    auto job = Job::join(options_for(network, this_process().rank, size, 0));
    ASSERT_TRUE(job.has_value()) << to_string(job.error());
    body(**job);
    return;
  }
  std::vector<std::thread> threads;
  if (network == Network::kInProcess) {
    auto jobs = Job::in_process(size);
    ASSERT_TRUE(jobs.has_value()) << to_string(jobs.error());
    for (auto& job : *jobs) threads.emplace_back([&job, &body] { body(*job); });
    for (auto& thread : threads) thread.join();
    return;
  }
  const std::uint16_t port = free_port();
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([=, &body] {
      auto job = Job::join(options_for(network, rank, size, port));
      ASSERT_TRUE(job.has_value()) << "rank " << rank << ": " << to_string(job.error());
      body(**job);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace tally::collective
