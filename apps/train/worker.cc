#include "apps/train/train_options.h"

#include <cstdlib>
#include <ctime>
#include <new>

#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include "adapters/torch/tensors.h"
#include "apps/tally/command_line.h"
#include "apps/tally/data_fetch.h"
#include "apps/tally/launch/remote.h"
#include "apps/tally/outputs.h"
#include "apps/train/device.h"
#include "apps/train/report.h"
#include "apps/train/training.h"
#include "base/cpu.h"
#include "process/interrupt.h"

namespace tally::app {

using adapter::or_throw;

namespace {

at::Device device_of(const TrainOptions& options, const Job& job) {
  if (!uses_cuda(options.device)) return at::kCPU;
  return {at::kCUDA, static_cast<at::DeviceIndex>(job.local_rank() % cuda_devices())};
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return text.data();
}

std::uint64_t parameters_of(const recipes::Model& model) {
  std::uint64_t count = 0;
  for (const at::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) count += static_cast<std::uint64_t>(parameter.numel());
  return count;
}

// Writes the outputs at the end; true if all could be written.
bool write_results(const TrainOptions& options, const TrainingRecord& record,
                   TrainConsole& console) {
  bool written = true;
  const auto take = [&](const Result<void>& outcome, const std::string& what) {
    if (outcome)
      console.say(what);
    else
      fmt::print(stderr, "{}\n", outcome.error().message);
    written = written && outcome.has_value();
  };
  if (!options.json.empty())
    take(append_line(options.json, to_json(record).dump(-1, ' ', false,
                                                        nlohmann::json::error_handler_t::replace)),
         "result appended to " + options.json);
  if (!options.report.empty())
    take(write_file(options.report, report_html(record)), "report in " + options.report);
  return written;
}

class Worker {
 public:
  Worker(const TrainOptions& options, recipes::Recipe& recipe, Job& job, JobOptions joined)
      : options_(options),
        recipe_(recipe),
        job_(job),
        joined_(std::move(joined)),
        console_({.silent = job.rank() != 0,
                  .progress = !options.quiet,
                  .columns = options.live_columns}) {}

  int run() {
    const int threads = options_.threads > 0
                            ? options_.threads
                            : std::max(1, usable_cores() / std::max(1, job_.local_size()));
    set_threads(threads);
    if (const auto device = check_device(options_.device); !device) throw Failure(device.error());
    auto prepared = prepare(options_, recipe_, job_.size(), data_cache_folder());
    if (!prepared) throw Failure(prepared.error());
    const at::Device device = device_of(options_, job_);
    torch::manual_seed(options_.seed);
    const std::shared_ptr<recipes::Model> model = recipe_.make_model(*prepared->train);
    model->to(device);
    TrainingRecord record{.recipe = recipe_.name(),
                          .data = options_.data.empty() ? "made data" : options_.data,
                          .started = now_text(),
                          .unit = prepared->task == recipes::Task::kLanguage ? "tokens" : "samples",
                          .workers = job_.size(),
                          .parameters = parameters_of(*model)};
    record.configuration = configuration_of(options_, recipe_, *prepared,
                                            {job_.size(), threads, device.str(), torch_version()});
    say_head(record, *prepared);
    const process::InterruptGuard guard;
    Training training({job_, options_, recipe_, *prepared, *model, device, console_, record,
                       servers_of(*prepared)});
    const StopReason reason = training.run();
    TrainingRecord& result = training.finish(reason);
    // Rank 0, unless it is gone.
    const bool tells = training.is_first();
    const auto recorded = training.write_gradients();
    if (recorded && !recorded->empty()) console_.say(*recorded);
    if (!recorded) fmt::print(stderr, "{}\n", recorded.error().message);
    const int code = tells ? conclude(*prepared, *model, reason, result) : exit_code(reason, true);
    return code == 0 && !recorded ? 1 : code;
  }

 private:
  // Returns where this worker finds the servers.
  ServerOptions servers_of(const Preparation& prepared) const {
    using Kind = ServerChoice::Kind;
    const char* const directory = std::getenv("TALLY_DIRECTORY");  // set by the launcher
    ServerOptions servers{.directory = directory != nullptr ? directory : "",
                          .count = prepared.servers.count,
                          .replicas = options_.replicas,
                          .secret = joined_.secret,
                          .snapshots = snapshots_folder(options_.checkpoint).string()};
    if (prepared.servers.kind == Kind::kElsewhere) {
      servers.directory = prepared.servers.address;
      servers.secret = prepared.server_secret;
    }
    if (prepared.servers.kind == Kind::kColocated) servers.directory.clear();
    if (prepared.plan.home == plan::Home::kServer && prepared.servers.kind == Kind::kProcesses &&
        servers.directory.empty())
      throw Failure(
          Error{.code = ErrorCode::kInvalid,
                .message = fmt::format("--servers {}: processes are started only where "
                                       "tally train starts its workers; give {},colocated "
                                       "or the HOST:PORT of a directory",
                                       options_.servers, options_.servers)});
    if (job_.local_size() < job_.size()) servers.host = own_host();
    return servers;
  }

  // Returns the address of this host for other hosts: the local address of the route to rank 0.
  std::string own_host() const {
    const std::string own = or_throw(launch::own_address_towards(joined_.master_address));
    return own.find(':') == std::string::npos ? own : "[" + own + "]";
  }

  static int exit_code(StopReason reason, bool good) {
    if (reason == StopReason::kInterrupted) return process::kInterruptedExitCode;
    return good ? 0 : 1;
  }

  void say_head(const TrainingRecord& record, const Preparation& prepared) {
    console_.say(fmt::format("{} on {}: {} parameters; {} training and {} test samples",
                             record.recipe, record.data, record.parameters, prepared.train->size(),
                             prepared.test->size()));
    console_.say(fmt::format("{} workers x batch {}, {} steps; {}, {}; {}", record.workers,
                             options_.batch, prepared.control.total_steps,
                             to_string(prepared.optimizer), prepared.schedule.text(),
                             plan::to_string(prepared.plan)));
  }

  // Reports the result, on rank 0.
  int conclude(const Preparation& prepared, recipes::Model& model, StopReason reason,
               TrainingRecord& record) {
    bool good = true;
    if (reason != StopReason::kInterrupted) {
      auto finish = recipe_.finish(model, *prepared.train, options_.seed);
      if (!finish) throw Failure(finish.error());
      good = finish->good;
      record.final_text = finish->text;
    }
    // A worker that replaces rank 0 has a silent console so far.
    TrainConsole aloud({.silent = false, .progress = false, .columns = 0});
    TrainConsole& console = job_.rank() == 0 ? console_ : aloud;
    console.say(summary_of(record));
    if (!record.final_text.empty()) console.say("\n" + record.final_text + "\n");
    good = write_results(options_, record, console) && good;
    return exit_code(reason, good);
  }

  const TrainOptions& options_;
  recipes::Recipe& recipe_;
  Job& job_;
  const JobOptions joined_;
  TrainConsole console_;
};

// Returns the first line of a message: libtorch adds stacks.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Replaces libtorch's messages about exhausted memory.
std::string torch_text(const std::string& what) {
  const bool memory = what.find("allocate memory") != std::string::npos ||
                      what.find("out of memory") != std::string::npos;
  return (memory ? "out of memory: " : "libtorch: ") + first_line(what);
}

const char* variable(const char* name) { return std::getenv(name); }

// Returns the rank according to the launcher's variables.
Rank rank_before_joining() {
  const auto job = options_from(variable);
  return job ? job->rank : 0;
}

int report_failure(Rank rank, const std::string& what) {
  fmt::print(stderr, "rank {}: {}\n", rank, what);
  return 1;
}

}  // namespace

int run_worker(const TrainOptions& options, recipes::Recipe& recipe) {
  Rank rank = rank_before_joining();
  try {
    const JobOptions joining = or_throw(options_from(variable));
    const std::unique_ptr<Job> job = or_throw(Job::join(joining));
    rank = job->rank();
    const int code = Worker(options, recipe, *job, joining).run();
    job->close();
    return code;
  } catch (const Failure& failure) {
    return report_failure(rank, first_line(plain_text(failure.error())));
  } catch (const c10::Error& error) {
    return report_failure(rank, torch_text(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return report_failure(rank, "out of memory: a smaller --batch needs less");
  } catch (const std::exception& error) {
    return report_failure(rank, first_line(error.what()));
  }
}

}  // namespace tally::app
