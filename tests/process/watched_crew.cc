#include "process/watched_crew.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

namespace tally::process {
namespace {

std::string seconds_of(milliseconds time) {
  return fmt::format("{:.3f}", static_cast<double>(time.count()) / 1000);
}

}  // namespace

WatchedCrew::WatchedCrew(const WatchOptions& options)
    : options_(options),
      crew_(options.crew),
      port_(unused_port()),
      job_(fmt::format("process-test-{}-{}", getpid(), port_)),
      state_file_(crew_.secret_file(0) + ".state") {
  start_coordinator();
}

void WatchedCrew::start_coordinator() {
  std::vector<std::string> command{TALLY_PROGRAM,
                                   "serve",
                                   "--coordinator",
                                   "--job",
                                   job_,
                                   "--size",
                                   std::to_string(options_.crew.size),
                                   "--listen",
                                   fmt::format("127.0.0.1:{}", port_),
                                   "--state-file",
                                   state_file_,
                                   "--heartbeat",
                                   seconds_of(options_.heartbeat),
                                   "--lost-after",
                                   seconds_of(options_.lost_after),
                                   "--stall-warning",
                                   seconds_of(options_.stall_warning)};
  if (options_.crew.transport == "tls") {
    command.emplace_back("--secret-file");
    command.push_back(crew_.secret_file(kSecretSeed));
  }
  coordinator_ = std::make_unique<Child>(Child::Options{command, {}});
  EXPECT_TRUE(says("watching job"));
}

std::map<std::string, std::string> WatchedCrew::variables() const {
  return {{"TALLY_COORDINATOR", fmt::format("127.0.0.1:{}", port_)},
          {"TALLY_JOB", job_},
          {"TALLY_HEARTBEAT", seconds_of(options_.heartbeat)}};
}

Child& WatchedCrew::start(Rank rank, const std::vector<std::string>& words) {
  return crew_.start(rank, words, variables());
}

testing::AssertionResult WatchedCrew::start_all(const std::vector<std::string>& words) {
  for (Rank rank = 0; rank < options_.crew.size; ++rank) start(rank, words);
  for (Rank rank = 0; rank < options_.crew.size; ++rank)
    if (auto joined = says("has joined"); !joined) return joined;
  return crew_.all_say("ready");
}

std::string WatchedCrew::tally(const std::vector<std::string>& words) {
  std::vector<std::string> command{TALLY_PROGRAM};
  command.insert(command.end(), words.begin(), words.end());
  Child child({command, {}});
  EXPECT_TRUE(child.exits(0)) << child.transcript();
  (void)child.transcript();
  return child.output();
}

std::string WatchedCrew::tally_until(const std::vector<std::string>& words,
                                     const std::vector<std::string>& parts) {
  const std::int64_t end = now_ms() + kPatience.count();
  for (;;) {
    const std::string output = tally(words);
    const bool complete = std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
      return output.find(part) != std::string::npos;
    });
    if (complete || now_ms() >= end) return output;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

testing::AssertionResult WatchedCrew::status_has(const std::string& part) {
  const std::string status = tally_until({"status", job_, "--json"}, {part});
  if (status.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no " << part << " in " << status;
}

testing::AssertionResult WatchedCrew::says(const std::string& part) {
  if (coordinator_->line_with(part)) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "no line with \"" << part << "\"; " << coordinator_->transcript();
}

}  // namespace tally::process
