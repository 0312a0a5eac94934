#include "apps/tally/commands.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/tally/checkpoint_listing.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "tally/checkpoint.h"

namespace tally::app {
namespace {

constexpr const char* kInspectCheckpointFooter = R"(
Examples:
  tally inspect checkpoint runs/a                    the newest checkpoint in runs/a
  tally inspect checkpoint runs/a/step-0000000120    this one
  tally inspect checkpoint runs/a --json

Every byte is read and compared with its checksum. Exit code 1: the checkpoint is damaged.)";

struct InspectCheckpointOptions {
  std::string path;
  bool json = false;
};

// Decides by the name or the manifest: a damaged checkpoint may lack either.
bool is_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto whole_path = std::filesystem::canonical(path, ignored);
  return checkpoint::step_of_name(whole_path.filename().string()).has_value() ||
         std::filesystem::exists(path / checkpoint::kManifestFile, ignored);
}

int run_inspect_checkpoint(const InspectCheckpointOptions& options) {
  std::filesystem::path path = options.path;
  // In a folder of checkpoints, take the newest.
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
  // Name the newest checkpoint that is intact.
  if (const auto latest = checkpoint::find_latest(options.path);
      steps.size() > 1 && !latest.has_value())
    fmt::print(stderr, "tally inspect checkpoint: {}\n", latest.error().message);
  return 1;
}

}  // namespace

void add_inspect_checkpoint_command(Command inspect) {
  Command command = inspect.add_command("checkpoint", "List a checkpoint and verify its checksums");
  command.footer(kInspectCheckpointFooter);
  const auto o = std::make_shared<InspectCheckpointOptions>();
  command.add("path", &o->path, "A checkpoint, or a folder of checkpoints",
              {.value = "PATH", .folder = true, .required = true});
  command.add("--json", &o->json, "One JSON object");
  command.action([o] { return run_inspect_checkpoint(*o); });
}

}  // namespace tally::app
