#include "apps/train/train_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include "adapters/torch/tensors.h"
#include "apps/tally/command_line.h"
#include "apps/tally/data_fetch.h"
#include "apps/tally/launch/launcher.h"
#include "apps/tally/launch/remote.h"
#include "apps/tally/outputs.h"
#include "apps/train/batches.h"
#include "apps/train/configuration.h"
#include "apps/train/continuation.h"
#include "apps/train/device.h"
#include "apps/train/device_texts.h"
#include "apps/train/report.h"
#include "apps/train/training.h"
#include "apps/train/use/initial_weights.h"
#include "base/counted.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "process/interrupt.h"

namespace tally::app {

using adapter::or_throw;

namespace {

// The workers of a host that compute on GPUs are assigned its GPUs round-robin; their ranks follow
// each other.
at::Device device_of(const std::vector<std::string>& devices, const Job& job) {
  const auto own = devices.begin() + job.rank();
  if (!uses_cuda(*own)) return at::kCPU;
  const auto before = std::count_if(own - job.local_rank(), own, uses_cuda);
  return {at::kCUDA, static_cast<at::DeviceIndex>(before % cuda_devices())};
}

// The device of each worker, cpu or cuda. `tally train` has replaced a list by hosts; under other
// launchers it is not offered. Each worker knows what `auto` means on its host.
std::vector<std::string> devices_of(const TrainOptions& options, Job& job) {
  const auto words = or_throw(parse_devices(options.device));
  auto devices = devices_of_workers(words, {job.size()});
  if (!devices) throw Failure(invalid("--device {}: {}", options.device, devices.error().message));
  const std::string& own = (*devices)[static_cast<std::size_t>(job.rank())];
  or_throw(check_device(own));
  const std::int32_t on_gpu = uses_cuda(own) ? 1 : 0;
  std::vector<std::int32_t> all(devices->size());
  or_throw(job.world().allgather(std::span(&on_gpu, 1), std::span(all)));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    (*devices)[rank] = all[rank] != 0 ? "cuda" : "cpu";
  return *devices;
}

// Ends the process if `message` is that of a failed or full GPU. Destructors are left out: they
// might wait for the GPU, or for ranks that wait for this one in a sum. The launcher and the other
// workers take this for a lost worker.
void end_if_gpu_failed(Rank rank, const std::string& message) {
  const std::string text = gpu_failure_text(message);
  if (text.empty()) return;
  fmt::print(stderr, "rank {}: {}\n", rank, text);
  std::fflush(stdout);
  std::fflush(stderr);
  std::_Exit(1);
}

// Calls `work` and ends the process if the GPU fails in it. Objects outside of `work` are not
// destroyed then.
template <typename Work>
auto with_gpu(Rank rank, Work&& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    end_if_gpu_failed(rank, error.what_without_backtrace());
    throw;
  } catch (const Failure& failure) {
    // A lost peer is another rank's failure, whatever that rank said.
    if (failure.error().code != ErrorCode::kPeerLost)
      end_if_gpu_failed(rank, failure.error().message);
    throw;
  }
}

// The launcher has divided the cores among the workers; a worker that is bound to its own cores
// cannot.
int threads_of(const TrainOptions& options, const Job& job) {
  if (options.threads > 0) return options.threads;
  const char* const divided = std::getenv("OMP_NUM_THREADS");
  const int threads = divided != nullptr ? std::atoi(divided) : 0;
  return threads > 0 ? threads : std::max(1, usable_cores() / std::max(1, job.local_size()));
}

std::uint64_t parameters_of(const recipes::Model& model) {
  std::uint64_t count = 0;
  for (const at::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) count += static_cast<std::uint64_t>(parameter.numel());
  return count;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
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

// Returns where this worker finds the servers.
ServerOptions servers_of(const TrainOptions& options, const Job& job, const JobOptions& joined,
                         const Preparation& prepared) {
  using Kind = ServerChoice::Kind;
  const char* const directory = std::getenv("TALLY_DIRECTORY");  // set by the launcher
  ServerOptions servers{
      .directory = directory != nullptr ? directory : "",
      .count = prepared.servers.count,
      .replicas = options.replicas,
      .secret = joined.secret,
      .snapshots = snapshots_folder(options.checkpoint).string(),
      // Checked with the options.
      .silence_limit = launch::silence_limit_of(*launch::parse_time(options.lost_after))};
  if (prepared.servers.kind == Kind::kElsewhere) {
    servers.directory = prepared.servers.address;
    servers.secret = prepared.server_secret;
  }
  if (prepared.servers.kind == Kind::kColocated) servers.directory.clear();
  if (prepared.plan.home == plan::Home::kServer && prepared.servers.kind == Kind::kProcesses &&
      servers.directory.empty())
    throw Failure(
        invalid("--servers {0}: processes are started only where tally train starts its workers; "
                "give {0},colocated or the HOST:PORT of a directory",
                options.servers));
  if (job.local_size() == job.size()) return servers;
  // The address of this host for other hosts: the local address of the route to rank 0.
  const std::string own = or_throw(launch::own_address_towards(joined.master_address));
  servers.host = own.find(':') == std::string::npos ? own : "[" + own + "]";
  return servers;
}

// Reports the result, on rank 0 or the worker that replaces it. Returns whether all is good.
bool conclude(const TrainOptions& options, const TrainingRecord& record, std::uint64_t saved_step,
              bool good, TrainConsole& console) {
  console.say(summary_of(record));
  if (!record.final_text.empty()) console.say("\n" + record.final_text + "\n");
  // After an interruption the launcher says what is saved.
  const bool is_saved = record.outcome != to_string(StopReason::kInterrupted) &&
                        record.divergence.empty() && !record.last_save_failed &&
                        (saved_step > 0 || options.checkpoint.empty());
  if (is_saved)
    console.say(kept_text(options.checkpoint, saved_step,
                          options.data.empty()      ? TrainedOn::kMadeData
                          : record.unit == "tokens" ? TrainedOn::kTexts
                                                    : TrainedOn::kSamples));
  return write_results(options, record, console) && good;
}

// Returns the exit code.
int train_rank(const TrainOptions& options, recipes::Recipe& recipe, Job& job,
               const JobOptions& joined) {
  TrainConsole console(
      {.silent = job.rank() != 0, .progress = !options.quiet, .columns = options.live_columns});
  const int threads = threads_of(options, job);
  set_threads(threads);
  const std::vector<std::string> devices = devices_of(options, job);
  const std::string& own_device = devices[static_cast<std::size_t>(job.rank())];
  or_throw(check_precision(options.precision, own_device));
  or_throw(check_graphs(options.graphs, devices));
  const Preparation prepared = or_throw(
      prepare(options, recipe, {.all = job.size(), .here = job.local_size()}, data_cache_folder()));
  if (!prepared.completion.empty()) {
    console.say(prepared.completion);
    return 0;
  }
  const at::Device device = device_of(devices, job);
  if (options.tf32 && device.is_cuda()) allow_tf32();
  torch::manual_seed(options.seed);
  const std::shared_ptr<recipes::Model> model = recipe.make_model(prepared.train->preprocessing());
  InitialWeights initial;
  if (!options.init.empty() && !prepared.resume)
    initial = or_throw(load_initial_weights(options.init, *model, prepared.plan.home));
  with_gpu(job.rank(), [&] { model->to(device); });
  TrainingRecord record{
      .recipe = recipe.name(),
      .data = options.data.empty() ? "made data" : options.data,
      .started = fmt::format("{:%Y-%m-%d %H:%M UTC}", fmt::gmtime(std::time(nullptr))),
      .unit = prepared.task == recipes::Task::kLanguage ? "tokens" : "samples",
      .workers = job.size(),
      .parameters = parameters_of(*model),
      .command = options.command};
  const bool is_mixed = options.device.find(',') != std::string::npos;
  record.configuration = configuration_of(
      options, recipe, prepared,
      {.workers = job.size(),
       .threads = threads,
       .device = is_mixed ? options.device : device.str(),
       .channels_last = has_channels_last(options.channels_last, prepared.has_convolutions, device),
       .torch = TORCH_VERSION,
       .host = host_name()});
  if (!prepared.data_facts.empty()) console.say(prepared.data_facts);
  console.say(fmt::format("{} on {}: {} parameters; {} training and {} test samples", record.recipe,
                          record.data, record.parameters, prepared.train->size(),
                          prepared.test->size()));
  console.say(wrapped(fmt::format("{} x batch {}, {}; {}, {}",
                                  counted(static_cast<std::uint64_t>(record.workers), "worker"),
                                  options.batch, counted(prepared.control.total_steps, "step"),
                                  with_rate(prepared.optimizer), prepared.schedule.text()),
                      options.live_columns));
  console.say(
      wrapped("plan " + plan::short_text(prepared.plan, options.plan), options.live_columns));
  if (!prepared.schedule_advice.empty())
    console.say(wrapped(prepared.schedule_advice, options.live_columns));
  if (options.tf32 && !any_uses_cuda(devices)) console.say("--tf32: has no effect on CPUs");
  if (!initial.text.empty()) console.say(wrapped("--init: " + initial.text, options.live_columns));
  const process::InterruptGuard guard;
  const std::unique_ptr<Training> made = with_gpu(job.rank(), [&] {
    return std::make_unique<Training>(
        Training::Parts{job, options, recipe, prepared, *model, device, console, record,
                        servers_of(options, job, joined, prepared),
                        ModelState{.recipe = recipe.name(),
                                   .options = values_of(recipe),
                                   .preprocessing = prepared.train->preprocessing()},
                        initial.assign_rows, why_no_graphs(devices)});
  });
  Training& training = *made;
  const StopReason reason = with_gpu(job.rank(), [&] { return training.run(); });
  TrainingRecord& result = *with_gpu(job.rank(), [&] { return &training.finish(reason); });
  const auto recorded = training.write_gradients();
  if (recorded && !recorded->empty()) console.say(*recorded);
  if (!recorded) fmt::print(stderr, "{}\n", recorded.error().message);
  bool good = recorded.has_value() && !result.last_save_failed;
  if (training.is_first()) {
    if (reason != StopReason::kInterrupted && reason != StopReason::kDiverged) {
      const recipes::Finish finish = with_gpu(job.rank(), [&] {
        return or_throw(recipe.finish(*model, *prepared.train, options.seed));
      });
      good = finish.good && good;
      result.final_text = finish.text;
    }
    good = conclude(options, result, training.saved_step(), good, console);
  }
  if (reason == StopReason::kInterrupted) return process::kInterruptedExitCode;
  if (reason == StopReason::kDiverged) return kDivergedExitCode;
  return good ? 0 : 1;
}

// Returns the first line of a message: libtorch adds stacks.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int report_failure(Rank rank, const std::string& what) {
  fmt::print(stderr, "rank {}: {}\n", rank, what);
  return 1;
}

// `tally train` as the launcher tells the worker that failed from those that lost it by this code.
int lost_peer_code() {
  return std::getenv("TALLY_LOST_PEER_CODE") != nullptr ? launch::kLostPeerExitCode : 1;
}

}  // namespace

int run_worker(const TrainOptions& options, recipes::Recipe& recipe) {
  const auto variables = options_from(::getenv);
  Rank rank = variables ? variables->rank : 0;  // according to the launcher
  try {
    const JobOptions joining = or_throw(variables);
    const std::unique_ptr<Job> job = or_throw(Job::join(joining));
    rank = job->rank();
    const int code = train_rank(options, recipe, *job, joining);
    job->close();
    return code;
  } catch (const Divergence& divergence) {
    report_failure(rank, first_line(plain_text(divergence.error())));
    return kDivergedExitCode;
  } catch (const Failure& failure) {
    if (failure.error().code == ErrorCode::kPeerLost) {
      // The message about a lost server is a sentence that names the server.
      const std::string loss = first_line(plain_text(failure.error()));
      const bool of_rank = failure.error().peer != kNoRank;
      report_failure(rank, fmt::format("ends, because {}{}", of_rank ? "it lost " : "", loss));
      return lost_peer_code();
    }
    const std::string of_gpu = gpu_failure_text(failure.error().message);
    return report_failure(rank, of_gpu.empty() ? first_line(plain_text(failure.error())) : of_gpu);
  } catch (const c10::Error& error) {
    return report_failure(rank, torch_failure_text(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return report_failure(rank, "out of memory: a smaller --batch needs less");
  } catch (const std::exception& error) {
    return report_failure(rank, first_line(error.what()));
  }
}

}  // namespace tally::app
