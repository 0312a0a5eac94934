#include "apps/tally/inspect_checkpoint_command.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/tally/checkpoint_listing.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "tally/checkpoint.h"

namespace tally::app {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tally inspect checkpoint runs/a                    the newest checkpoint in runs/a
  tally inspect checkpoint runs/a/step-0000000120    this one
  tally inspect checkpoint runs/a --json

Every byte is read and compared with its checksum. Exit code 1: the checkpoint is damaged.)";

struct Options {
  std::string path;
  bool json = false;
};

// By its name or what is in it: a damaged one may lack either.
bool is_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto whole_path = std::filesystem::canonical(path, ignored);
  return checkpoint::step_of_name(whole_path.filename().string()).has_value() ||
         std::filesystem::exists(path / checkpoint::kManifestFile, ignored);
}

int run(const Options& options) {
  std::filesystem::path path = options.path;
  // A folder of checkpoints: its newest.
  const auto steps = checkpoint::list_steps(path);
  if (!steps.empty()) {
    path = checkpoint::path_of(path, steps.back());
  } else if (!is_checkpoint(path)) {
    fmt::print(stderr, "tally inspect checkpoint: no checkpoint in {}\n", options.path);
    return 1;
  }
  const CheckpointFacts facts = facts_of(path);
  if (options.json) {
    fmt::print("{}\n", to_json(facts).dump(-1, ' ', /*ensure_ascii=*/false,
                                           nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", listing(facts));
  }
  if (facts.damage.empty()) return 0;
  // Which other one would do.
  if (const auto latest = checkpoint::find_latest(options.path);
      steps.size() > 1 && !latest.has_value())
    fmt::print(stderr, "tally inspect checkpoint: {}\n", latest.error().message);
  return 1;
}

}  // namespace

void add_inspect_checkpoint_command(CLI::App& parent, int& exit_code) {
  CLI::App& command =
      *parent.add_subcommand("checkpoint", "What is in a checkpoint, and whether it is whole");
  command.footer(kFooter);
  const auto o = std::make_shared<Options>();
  command.add_option("path", o->path, "A checkpoint, or the folder of several")
      ->type_name("PATH")
      ->required()
      ->check(CLI::ExistingDirectory);
  command.add_flag("--json", o->json, "As one JSON object");
  command.callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tally::app
