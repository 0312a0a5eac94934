#include "apps/tally/commands.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/units.h"
#include "sim/predict.h"

namespace tally::app {
namespace {

struct SimulateOptions {
  int ranks = 8;
  std::string bytes = "100MiB";
  std::string bandwidth = "12.5GB/s";
  std::string latency = "5us";
  int local_ranks = 1;
  std::string local_bandwidth = "100GB/s";
  std::string local_latency = "1us";
  std::string reduce_bandwidth;
  std::string json;
};

struct Question {
  std::size_t bytes = 0;
  sim::Model model;
};

struct PredictionRow {
  Algorithm algorithm;
  sim::Prediction simulated;
  sim::Formula calculated;
};

Result<Question> read_question(const SimulateOptions& options) {
  Question question;
  sim::Model& model = question.model;
  TALLY_TRY(question.bytes, parse_bytes(options.bytes));
  TALLY_TRY(model.network.bytes_per_second, parse_bytes_per_second(options.bandwidth));
  TALLY_TRY(model.network.latency, parse_duration(options.latency));
  TALLY_TRY(model.local.bytes_per_second, parse_bytes_per_second(options.local_bandwidth));
  TALLY_TRY(model.local.latency, parse_duration(options.local_latency));
  model.local_ranks = options.local_ranks;
  if (!options.reduce_bandwidth.empty()) {
    TALLY_TRY(const double rate, parse_bytes_per_second(options.reduce_bandwidth));
    model.reduce_seconds_per_byte = 1 / rate;
  }
  return question;
}

Result<std::vector<PredictionRow>> predict_all(int ranks, const Question& question) {
  std::vector<Algorithm> algorithms{Algorithm::kRing, Algorithm::kHalvingDoubling,
                                    Algorithm::kTree};
  if (question.model.local_ranks > 1) algorithms.push_back(Algorithm::kHierarchical);
  std::vector<PredictionRow> rows;
  for (const Algorithm algorithm : algorithms) {
    TALLY_TRY(const sim::Prediction simulated,
              sim::predict(algorithm, ranks, question.bytes, question.model));
    TALLY_TRY(sim::Formula calculated,
              sim::formula(algorithm, ranks, question.bytes, question.model));
    rows.push_back({algorithm, simulated, std::move(calculated)});
  }
  return rows;
}

void print_prediction(const SimulateOptions& options, const Question& question,
                      const std::vector<PredictionRow>& rows) {
  fmt::print("all-reduce of {} on {} ranks, {} and {} between hosts", format_bytes(question.bytes),
             options.ranks, format_bytes_per_second(question.model.network.bytes_per_second),
             format_duration(question.model.network.latency));
  if (options.local_ranks > 1) {
    fmt::print(", {} ranks to a host with {} and {} inside", options.local_ranks,
               format_bytes_per_second(question.model.local.bytes_per_second),
               format_duration(question.model.local.latency));
  }
  fmt::print("\n\n{:<18}{:>12}{:>12}{:>8}{:>14}  {}\n", "algorithm", "simulated", "formula",
             "steps", "bytes/rank", "formula");
  for (const PredictionRow& row : rows) {
    fmt::print("{:<18}{:>12}{:>12}{:>8}{:>14}  {}\n", to_string(row.algorithm),
               format_duration(row.simulated.time), format_duration(row.calculated.time),
               row.simulated.steps, format_bytes(row.simulated.bytes_per_rank),
               row.calculated.text);
  }
  fmt::print(
      "\nN ranks, M bytes, a latency, B bandwidth, g seconds to add a byte, P the largest power of "
      "two\nup to N, h = ceil(log2 N); K hosts of L ranks with a' and B' inside. Except for "
      "hierarchical the\nformulas take every link for one between hosts.\n");
}

Result<void> save_prediction(const SimulateOptions& options, const Question& question,
                             const std::vector<PredictionRow>& rows) {
  nlohmann::json results = nlohmann::json::array();
  for (const PredictionRow& row : rows) {
    results.push_back({{"algorithm", to_string(row.algorithm)},
                       {"simulated_ns", row.simulated.time.count()},
                       {"formula_ns", row.calculated.time.count()},
                       {"formula", row.calculated.text},
                       {"steps", row.simulated.steps},
                       {"messages", row.simulated.messages},
                       {"bytes_per_rank", row.simulated.bytes_per_rank}});
  }
  const sim::Model& model = question.model;
  const nlohmann::json document{{"ranks", options.ranks},
                                {"bytes", question.bytes},
                                {"bytes_per_second", model.network.bytes_per_second},
                                {"latency_ns", model.network.latency.count()},
                                {"local_ranks", model.local_ranks},
                                {"local_bytes_per_second", model.local.bytes_per_second},
                                {"local_latency_ns", model.local.latency.count()},
                                {"reduce_seconds_per_byte", model.reduce_seconds_per_byte},
                                {"results", std::move(results)}};
  std::ofstream file(options.json);
  file << document.dump(2) << '\n';
  if (!file.flush()) return system_failure("cannot write {}", options.json);
  return {};
}

Result<void> simulate(const SimulateOptions& options) {
  TALLY_TRY(const Question question, read_question(options));
  TALLY_TRY(const std::vector<PredictionRow> rows, predict_all(options.ranks, question));
  print_prediction(options, question, rows);
  if (options.json.empty()) return {};
  return save_prediction(options, question, rows);
}

}  // namespace

void add_simulate_command(Command bench) {
  Command command =
      bench.add_command("simulate", "Predict an all-reduce on a cluster by simulation");
  const auto o = std::make_shared<SimulateOptions>();
  command.add("--ranks", &o->ranks, "Ranks of the job", {.least = 1, .most = 1 << 16});
  command.add("--bytes", &o->bytes, "Size of the vector", {.value = "SIZE"});
  command.add("--bandwidth", &o->bandwidth, "Of each rank between hosts, in each direction",
              {.value = "RATE"});
  command.add("--latency", &o->latency, "Of one message between hosts", {.value = "TIME"});
  command.add("--local-ranks", &o->local_ranks, "Ranks on each host",
              {.least = 1, .most = 1 << 16});
  command.add("--local-bandwidth", &o->local_bandwidth, "Inside a host", {.value = "RATE"});
  command.add("--local-latency", &o->local_latency, "Inside a host", {.value = "TIME"});
  command.add("--reduce-bandwidth", &o->reduce_bandwidth,
              "Speed at which a rank adds arriving bytes; unset: unlimited", {.value = "RATE"});
  command.add("--json", &o->json, "Also write the result to FILE", {.value = "FILE"});
  command.action([o] { return exit_code_of(simulate(*o), "tally"); });
}

}  // namespace tally::app
