#include "bench/compress/comparison.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "bench/train/curves.h"
#include "bench/train/launches.h"
#include "bench/train/problem_files.h"
#include "plan/plan.h"
#include "process/interrupt.h"

namespace tally::bench::compress {
namespace {

constexpr int kWorkers = 2;
// A worker makes these steps before the timed ones of each round; their bytes are counted too.
constexpr int kUntimedSteps = 2;
constexpr std::size_t kEdge = 5;
constexpr double kMostGrowth = 1.05;

struct Contender {
  std::unique_ptr<WorkerGroup> group;  // nullptr: failed
  Measurement measured;
};

double mean_of(const double* first, std::size_t count) {
  return std::accumulate(first, first + count, 0.0) / static_cast<double>(count);
}

// Checks that the loss is finite and does not grow, for codecs that change the steps.
Result<void> check_losses(const std::vector<double>& losses) {
  for (const double loss : losses)
    if (!std::isfinite(loss))
      return Error{.code = ErrorCode::kMismatch, .message = "a loss is not finite"};
  const double before = mean_of(losses.data(), kEdge);
  const double after = mean_of(losses.data() + losses.size() - kEdge, kEdge);
  if (after <= before * kMostGrowth) return {};
  return Error{.code = ErrorCode::kMismatch,
               .message = fmt::format("the loss grows from {:.4g} to {:.4g}", before, after)};
}

bool chooses_itself(const std::string& plan) {
  const auto parsed = plan::parse_plan(plan);
  return parsed && parsed->codec.kind == plan::Codec::kAuto;
}
bool is_exact(const std::string& plan) {
  const auto parsed = plan::parse_plan(plan);
  return parsed && parsed->codec.kind == plan::Codec::kNone;
}

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
        progress_(progress),
        workers_{.problem = {}, .ranks = kWorkers, .threads = options.threads} {}

  void run() {
    if (const auto ready = prepare(); !ready) return fail("problem", ready.error());
    // Losses do not depend on the link and would take long over a slow one: no limit yet.
    if (const auto shaped = hosts_.shape("none"); !shaped) return fail("link", shaped.error());
    for (const std::string& plan : options_.plans)
      if (!chooses_itself(plan)) enter(plan);
    if (const auto shaped = hosts_.shape(link_); !shaped) return fail("link", shaped.error());
    // auto measures the link, so its workers start with the limit.
    for (const std::string& plan : options_.plans)
      if (chooses_itself(plan)) enter(plan);
    measure();
    for (const std::string& plan : options_.plans)
      for (Contender& contender : contenders_)
        if (contender.measured.plan == plan)
          result_.measurements.push_back(std::move(contender.measured));
  }

 private:
  Result<void> prepare() {
    TALLY_TRY(folder_, process::TempDir::make());
    workers_.problem = folder_->path();
    return write_problem(folder_->path(), facts_, kWorkers, options_.timing.seed);
  }
  Deadline deadline() const { return SteadyClock().after(options_.timing.command_timeout); }

  // One worker on each host.
  Result<std::unique_ptr<WorkerGroup>> start(const std::string& plan) {
    if (process::interrupted() != 0)
      return Error{.code = ErrorCode::kClosed, .message = "interrupted"};
    progress_.now(fmt::format("{}, {}: starting {}", facts_.name, link_, short_name(plan)));
    train::Workers workers = workers_;
    workers.plan = plan;
    TALLY_TRY(Launch launch, launch_tally(workers));
    for (int host = 0; host < kWorkers; ++host) {
      process::ChildOptions& process = launch.processes[static_cast<std::size_t>(host)];
      process.command = hosts_.on(host, process.command);
      for (auto& [name, value] : process.variables) {
        if (name == "MASTER_ADDR") value = Hosts::address(0);
        if (name == "LOCAL_RANK") value = "0";
        if (name == "LOCAL_WORLD_SIZE") value = "1";
      }
    }
    return WorkerGroup::start(std::move(launch), deadline());
  }

  Result<std::vector<double>> losses_of(WorkerGroup& group) {
    TALLY_TRY(Answer answer,
              group.command(fmt::format("check {}", train::kCheckedSteps), deadline()));
    if (answer.samples_us.size() == train::kCheckedSteps) return std::move(answer.samples_us);
    return Error{.code = ErrorCode::kCorrupt, .message = "not all losses are numbers"};
  }

  // Compares with one process that trains on the batches of both.
  Result<void> check_exact(const std::vector<double>& losses) {
    TALLY_TRY(Launch launch, launch_plain(workers_, "reference", kWorkers));
    TALLY_TRY(const auto group, WorkerGroup::start(std::move(launch), deadline()));
    TALLY_TRY(std::vector<double> expected, losses_of(*group));
    TALLY_TRY(train::agreement({.name = "two hosts", .losses = losses},
                               {{.name = "one process", .losses = std::move(expected)}}));
    return {};
  }

  void enter(const std::string& plan) {
    auto group = start(plan);
    if (!group) return fail(plan, group.error());
    const auto losses = losses_of(**group);
    if (!losses) return fail(plan, losses.error());
    const auto good =
        contenders_.empty() && is_exact(plan) ? check_exact(*losses) : check_losses(*losses);
    if (!good) return fail(plan, good.error());
    if (contenders_.empty()) first_loss_ = mean_of(&(*losses)[losses->size() - kEdge], kEdge);
    const double last = mean_of(&(*losses)[losses->size() - kEdge], kEdge);
    contenders_.push_back(
        {.group = std::move(*group),
         .measured = {
             .model = facts_.name, .link = link_, .plan = plan, .loss_ratio = last / first_loss_}});
  }

  // Each round begins with another plan.
  void measure() {
    for (int round = 0; round < options_.timing.rounds; ++round) {
      progress_.stage(fmt::format("{}, {}: round {} of {}", facts_.name, link_, round + 1,
                                  options_.timing.rounds));
      for (std::size_t i = 0; i < contenders_.size(); ++i) {
        Contender& contender =
            contenders_[(i + static_cast<std::size_t>(round)) % contenders_.size()];
        if (process::interrupted() != 0) return;
        if (contender.group == nullptr) continue;
        progress_.now(fmt::format("{}, {}: round {}: {}", facts_.name, link_, round + 1,
                                  short_name(contender.measured.plan)));
        if (const auto timed = time(contender); !timed) {
          fail(contender.measured.plan, timed.error());
          contender.group.reset();
        }
      }
    }
    for (Contender& contender : contenders_)
      if (contender.group != nullptr && chooses_itself(contender.measured.plan))
        contender.measured.said = last_choice(contender.group->launch().processes[0].log_file);
  }

  Result<void> time(Contender& contender) {
    TALLY_TRY(const std::uint64_t before, hosts_.sent_bytes());
    TALLY_TRY(const Answer answer,
              contender.group->command(fmt::format("run {}", options_.timing.steps), deadline()));
    TALLY_TRY(const std::uint64_t after, hosts_.sent_bytes());
    for (const double us : answer.samples_us) contender.measured.samples_ms.push_back(us / 1000);
    contender.measured.sent_bytes.push_back(static_cast<double>(after - before) / kWorkers /
                                            (options_.timing.steps + kUntimedSteps));
    return {};
  }

  void fail(const std::string& who, const Error& error) {
    if (process::interrupted() != 0) return;
    result_.failures.push_back(
        fmt::format("{}, {}, {}: {}", facts_.name, link_, who, error.message));
    progress_.note("failed: " + result_.failures.back());
  }

  const PlanComparisonOptions& options_;
  const train::ModelFacts& facts_;
  const std::string& link_;
  Hosts& hosts_;
  PlanComparison& result_;
  process::Progress& progress_;
  train::Workers workers_;
  std::unique_ptr<process::TempDir> folder_;
  std::vector<Contender> contenders_;
  double first_loss_ = 1;
};

}  // namespace

Result<std::vector<std::string>> parse_plans(const std::string& text) {
  std::vector<std::string> plans;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    TALLY_TRY(const plan::Plan plan, plan::parse_plan(text.substr(begin, end - begin)));
    if (plan.home != plan::Home::kGroup)
      return Error{.code = ErrorCode::kInvalid,
                   .message = "plans of two workers without servers are compared: home=group"};
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
      if (process::interrupted() == 0) LinkRun(options, facts, link, hosts, result, progress).run();
  return result;
}

}  // namespace tally::bench::compress
