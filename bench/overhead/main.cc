// Measures the cost of heartbeats and recording; see README.md.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "bench/common/statistics.h"
#include "bench/overhead/rank.h"
#include "group/coordinator.h"
#include "group/host.h"

namespace tally::bench {
namespace {

constexpr double kStepNs = 10e6;

struct Options {
  int ranks = 2;
  RankOptions rank;
};

template <typename Field>
double median_of(const std::vector<Block>& blocks, Field field) {
  std::vector<double> values;
  for (const Block& block : blocks) values.push_back(block.*field);
  return median(values);
}

void print(const Options& options, const RankFigures& figures) {
  const double record_ns = recording_ns();
  nlohmann::ordered_json line;
  line["bench"] = "overhead";
  line["host"] = group::host_name();
  line["cores"] = usable_cores();
  line["ranks"] = options.ranks;
  line["rounds"] = options.rank.rounds;
  line["steps"] = options.rank.steps;
  line["heartbeat_s"] = options.rank.heartbeat_s;
  line["wall_ms_without"] = median_of(figures.without, &Block::wall_ms);
  line["wall_ms_with"] = median_of(figures.with, &Block::wall_ms);
  line["cpu_ms_without"] = median_of(figures.without, &Block::cpu_ms);
  line["cpu_ms_with"] = median_of(figures.with, &Block::cpu_ms);
  line["watch_cpu_percent"] = 100 * median_of(figures.with, &Block::other_cpu_share);
  line["record_ns"] = record_ns;
  line["record_percent"] = 100 * record_ns / kStepNs;
  fmt::print("{}\n", line.dump());
}

// Starts a rank in a process of its own; exit code 0 on success. Forked before there are threads.
pid_t start_rank(int rank, const Options& options) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(options.ranks).c_str(), 1);
  // The coordinator's address comes through a pipe once it is known.
  std::string address(64, '\0');
  const ssize_t bytes = read(STDIN_FILENO, address.data(), address.size());
  address.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  RankOptions mine = options.rank;
  mine.coordinator = address.substr(0, address.find(' '));
  const auto figures = run_rank(mine);
  if (!figures.has_value()) fmt::print(stderr, "rank {}: {}\n", rank, figures.error().message);
  if (figures.has_value() && rank == 0) print(options, *figures);
  std::fflush(stdout);
  _exit(figures.has_value() ? 0 : 1);
}

// Returns distinct free ports of this machine.
std::vector<std::uint16_t> free_ports(int count) {
  std::vector<net::Listener> listeners;
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < count; ++i) {
    auto listener = net::Listener::bind({.host = "127.0.0.1", .port = 0});
    if (!listener.has_value()) break;
    ports.push_back(listener->address().port);
    listeners.push_back(*std::move(listener));
  }
  return ports;
}

int run(Options options) {
  options.rank.ports = free_ports(2 * options.rank.rounds);
  std::vector<int> pipes;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    const int saved = dup(STDIN_FILENO);
    dup2(ends[0], STDIN_FILENO);
    ranks.push_back(start_rank(rank, options));
    dup2(saved, STDIN_FILENO);
    close(saved);
    close(ends[0]);
    pipes.push_back(ends[1]);
  }
  const auto coordinator = group::Coordinator::start(
      {.job = fmt::format("overhead-{}", getpid()),
       .size = options.ranks,
       .heartbeat = std::chrono::milliseconds(static_cast<long>(options.rank.heartbeat_s * 1000))},
      [](const group::CoordinatorEvent& event) {
        if (event.kind == group::EventKind::kLost) fmt::print(stderr, "{}\n", event.sentence);
      });
  if (coordinator.has_value()) {
    const std::string address = to_string((*coordinator)->address()) + " ";
    for (const int pipe : pipes)
      if (write(pipe, address.data(), address.size()) < 0) return 1;
  }
  for (const int pipe : pipes) close(pipe);
  bool well = coordinator.has_value();
  for (const pid_t pid : ranks) {
    int status = 0;
    waitpid(pid, &status, 0);
    well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return well ? 0 : 1;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  tally::bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (name == "--ranks") options.ranks = std::max(1, static_cast<int>(value));
    if (name == "--rounds") options.rank.rounds = std::max(1, static_cast<int>(value));
    if (name == "--steps") options.rank.steps = std::max(1, static_cast<int>(value));
    if (name == "--heartbeat") options.rank.heartbeat_s = std::max(0.01, value);
  }
  return tally::bench::run(options);
}
