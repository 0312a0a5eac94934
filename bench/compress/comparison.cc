#include "bench/compress/comparison.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <numeric>
#include <utility>

#include "base/errors.h"
#include "bench/train/contest.h"
#include "bench/train/curves.h"
#include "plan/plan.h"

namespace tally::bench::compress {
namespace {

constexpr int kWorkers = 2;
// A worker makes these steps before the timed ones of each round; their bytes are counted too.
constexpr int kUntimedSteps = 2;
constexpr std::size_t kEdge = 5;
constexpr double kMostGrowth = 1.05;

double mean_of(const double* first, std::size_t count) {
  return std::accumulate(first, first + count, 0.0) / static_cast<double>(count);
}

// Checks that the loss is finite and does not grow, for codecs that change the steps.
Result<void> check_losses(const std::vector<double>& losses) {
  for (const double loss : losses)
    if (!std::isfinite(loss)) return make_error(ErrorCode::kMismatch, "a loss is not finite");
  const double before = mean_of(losses.data(), kEdge);
  const double after = mean_of(losses.data() + losses.size() - kEdge, kEdge);
  if (after <= before * kMostGrowth) return {};
  return make_error(ErrorCode::kMismatch, "the loss grows from {:.4g} to {:.4g}", before, after);
}

bool has_codec(const std::string& plan, plan::Codec codec) {
  const auto parsed = plan::parse_plan(plan);
  return parsed && parsed->codec.kind == codec;
}
bool chooses_itself(const std::string& plan) { return has_codec(plan, plan::Codec::kAuto); }

// Returns the last line of a log that mentions codecs.
std::string last_choice(const std::string& log) {
  std::ifstream file(log);
  std::string found;
  for (std::string line; std::getline(file, line);)
    if (line.find("codec") != std::string::npos) found = line;
  return found;
}

// One model over one link.
class LinkRun final {
 public:
  LinkRun(const PlanComparisonOptions& options, const train::ModelFacts& facts,
          const std::string& link, Hosts& hosts, PlanComparison& result,
          process::Progress& progress)
      : options_(options),
        facts_(facts),
        link_(link),
        hosts_(hosts),
        result_(result),
        contest_(facts.name + ", " + link, options.timing, result.failures, progress),
        workers_{.problem = {}, .ranks = kWorkers, .threads = options.threads} {}

  Result<void> run() {
    TALLY_TRY(workers_.problem, contest_.prepare(facts_, kWorkers));
    // Losses do not depend on the link and would take long over a slow one: no limit yet.
    TALLY_TRY(hosts_.shape("none"));
    enter_all(/*choosing=*/false);
    // auto measures the link, so its workers start with the limit.
    TALLY_TRY(hosts_.shape(link_));
    enter_all(/*choosing=*/true);
    contest_.measure([this](std::size_t i) { return time(i); });
    for (std::size_t i = 0; i < measured_.size(); ++i)
      if (chooses_itself(measured_[i].plan)) measured_[i].said = last_choice(contest_.log_of(i));
    for (const std::string& plan : options_.plans)
      for (Measurement& measured : measured_)
        if (measured.plan == plan) result_.measurements.push_back(std::move(measured));
    return {};
  }
  void fail(const std::string& who, const Error& error) { contest_.fail(who, error); }

 private:
  // One worker on each host.
  Result<std::unique_ptr<WorkerGroup>> start(const std::string& plan) {
    train::Workers workers = workers_;
    workers.plan = plan;
    TALLY_TRY(Launch launch, launch_tally(workers));
    launch.contender = short_name(plan);
    for (int host = 0; host < kWorkers; ++host) {
      process::ChildOptions& process = launch.processes[static_cast<std::size_t>(host)];
      process.command = hosts_.on(host, process.command);
      process::set_variable(process.variables, "MASTER_ADDR", Hosts::address(0));
      process::set_variable(process.variables, "LOCAL_RANK", "0");
      process::set_variable(process.variables, "LOCAL_WORLD_SIZE", "1");
    }
    return contest_.start(std::move(launch));
  }

  // Compares with one process that trains on the batches of both.
  Result<void> check_exact(const std::vector<double>& losses) {
    TALLY_TRY(const auto group, contest_.start(launch_plain(workers_, "reference", kWorkers)));
    TALLY_TRY(std::vector<double> expected, contest_.losses_of(*group));
    TALLY_TRY(train::agreement({.name = "two hosts", .losses = losses},
                               {{.name = "one process", .losses = std::move(expected)}}));
    return {};
  }

  // Starts and checks the plans that choose codecs themselves, or the others.
  void enter_all(bool choosing) {
    for (const std::string& plan : options_.plans) {
      if (chooses_itself(plan) != choosing) continue;
      if (const auto entered = enter(plan); !entered) contest_.fail(plan, entered.error());
    }
  }

  Result<void> enter(const std::string& plan) {
    TALLY_TRY(auto group, start(plan));
    TALLY_TRY(const std::vector<double> losses, contest_.losses_of(*group));
    const bool exact = measured_.empty() && has_codec(plan, plan::Codec::kNone);
    TALLY_TRY(exact ? check_exact(losses) : check_losses(losses));
    const double last = mean_of(&losses[losses.size() - kEdge], kEdge);
    if (measured_.empty()) first_loss_ = last;
    measured_.push_back(
        {.model = facts_.name, .link = link_, .plan = plan, .loss_ratio = last / first_loss_});
    contest_.enter(short_name(plan), std::move(group));
    return {};
  }

  Result<void> time(std::size_t index) {
    TALLY_TRY(const std::uint64_t before, hosts_.sent_bytes());
    TALLY_TRY(contest_.time(index, measured_[index].samples_ms));
    TALLY_TRY(const std::uint64_t after, hosts_.sent_bytes());
    measured_[index].sent_bytes.push_back(static_cast<double>(after - before) / kWorkers /
                                          (options_.timing.steps + kUntimedSteps));
    return {};
  }

  const PlanComparisonOptions& options_;
  const train::ModelFacts& facts_;
  const std::string& link_;
  Hosts& hosts_;
  PlanComparison& result_;
  train::Contest contest_;
  train::Workers workers_;
  std::vector<Measurement> measured_;
  double first_loss_ = 1;
};

}  // namespace

Result<std::vector<std::string>> parse_plans(const std::string& text) {
  std::vector<std::string> plans;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    TALLY_TRY(const plan::Plan plan, plan::parse_plan(text.substr(begin, end - begin)));
    if (plan.home != plan::Home::kGroup)
      return invalid("plans of two workers without servers are compared: home=group");
    plans.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return plans;
}

std::string short_name(const std::string& plan) {
  constexpr std::string_view kCodec = "codec=";
  const bool is_codec_alone = plan.rfind(kCodec, 0) == 0 && plan.find(' ') == std::string::npos;
  return is_codec_alone ? plan.substr(kCodec.size()) : plan;
}

PlanComparison compare_plans(const PlanComparisonOptions& options, Hosts& hosts,
                             process::Progress& progress) {
  PlanComparison result;
  for (const train::ModelFacts& facts : options.models)
    for (const std::string& link : options.links)
      if (process::interrupted() == 0) {
        LinkRun run(options, facts, link, hosts, result, progress);
        if (const auto outcome = run.run(); !outcome) run.fail("start", outcome.error());
      }
  return result;
}

}  // namespace tally::bench::compress
