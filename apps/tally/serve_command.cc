#include "apps/tally/serve_command.h"

#include <poll.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/tally/interrupt.h"
#include "apps/tally/watch_target.h"
#include "group/coordinator.h"
#include "group/local_access.h"
#include "group/reporter.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tally serve --coordinator --job digits --size 4
  tally serve --coordinator --job digits --size 8 --listen 10.0.0.1:29401 --secret-file job.secret \
      --state-file digits.state --stall-warning 30

A secret file is made by (umask 077; head -c 32 /dev/urandom > job.secret).
The ranks find it by TALLY_COORDINATOR=HOST:PORT, with the same secret in TALLY_SECRET_FILE. `tally run` has
one of its own. Started again with the same --listen and --state-file it gets its ranks back. Ends in order
on SIGTERM, SIGINT and SIGHUP; the ranks work on.

Exit codes: 0 it was asked to end; 1 it could not start; 2 wrong usage.)";

constexpr int kWrongUsage = 2;

// Signals end poll(); one that comes just before it is seen this much later.
constexpr int kLookMilliseconds = 200;

struct Options {
  bool coordinator = false;
  std::string listen = "127.0.0.1:0";
  std::string secret_file;
  double heartbeat = 1;
  double lost_after = 0;
  double stall_warning = 10;
  group::CoordinatorOptions watch;
};

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

void say(const std::string& sentence) {
  fmt::print("{:%H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), sentence);
  std::fflush(stdout);
}

Result<std::unique_ptr<group::Coordinator>> start(const Options& options) {
  group::CoordinatorOptions watch = options.watch;
  const auto listen = group::address_from(options.listen);
  if (!listen.has_value())
    return Error{.code = ErrorCode::kInvalid, .message = "--listen " + listen.error().message};
  watch.listen = *listen;
  TALLY_TRY(watch.secret, secret_in(options.secret_file));
  watch.heartbeat = seconds(options.heartbeat);
  watch.lost_after = seconds(options.lost_after);
  watch.stall_warning = seconds(options.stall_warning);
  return group::Coordinator::start(
      watch, [](const group::CoordinatorEvent& event) { say(event.sentence); });
}

int run(const Options& options) {
  const InterruptGuard guard;
  const auto coordinator = start(options);
  if (!coordinator.has_value()) {
    fmt::print(stderr, "tally serve: {}\n", coordinator.error().message);
    return coordinator.error().code == ErrorCode::kInvalid ? kWrongUsage : 1;
  }
  say(fmt::format("watching job {} of {} ranks at {}", (*coordinator)->local_name(),
                  options.watch.size, to_string((*coordinator)->address())));
  while (interrupted() == 0) poll(nullptr, 0, kLookMilliseconds);
  say("ends; the ranks work on");
  return 0;
}

}  // namespace

void add_serve_command(CLI::App& parent, int& exit_code) {
  CLI::App& command = *parent.add_subcommand("serve", "Watch over a job that others started");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  group::CoordinatorOptions& watch = o->watch;
  command.add_flag("--coordinator", o->coordinator, "Be the coordinator of a job")->required();
  command.add_option("--job", watch.job, "Its name")
      ->required()
      ->type_name("NAME")
      ->check([](const std::string& name) -> std::string {
        if (group::is_job_name(name)) return "";
        return fmt::format("'{}' is not 1 to 64 letters, digits, dots, underscores and dashes",
                           name);
      });
  command.add_option("--size", watch.size, "How many ranks it has")
      ->required()
      ->check(CLI::Range(1, 4096));
  command.add_option("--generation", watch.generation, "Its first one")->capture_default_str();
  command.add_option("--listen", o->listen, "Where; port 0: any that is free")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command
      .add_option("--secret-file", o->secret_file,
                  "With the job's secret: needed unless only this machine can reach it")
      ->type_name("FILE");
  command.add_option("--state-file", watch.state_file, "To go on from when it is started again")
      ->type_name("FILE");
  const CLI::Range time(0.01, 86400.0);
  command.add_option("--heartbeat", o->heartbeat, "Seconds between the ranks' reports")
      ->check(time)
      ->capture_default_str();
  command
      .add_option(
          "--lost-after", o->lost_after,
          "Seconds of silence after which a rank is lost; 0: with the third missed heartbeat")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command.add_option("--stall-warning", o->stall_warning, "Seconds of waiting that are reported")
      ->check(time)
      ->capture_default_str();
  command.callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tally::app
