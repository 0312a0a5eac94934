#include "apps/train/use/initial_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include "base/errors.h"
#include "recipes/model.h"
#include "tally/checkpoint.h"
#include "tally/torch.h"

namespace tally::app {

namespace fs = std::filesystem;

Result<fs::path> checkpoint_in(const fs::path& run) {
  std::error_code ignored;
  if (!fs::exists(run, ignored))
    return system_failure("no folder {}: name the folder of `tally train --checkpoint`",
                          run.string());
  if (fs::exists(run / "manifest.json", ignored)) return run;
  return checkpoint::find_latest(run);
}

Result<std::string> load_initial_weights(const fs::path& from, torch::nn::Module& module) {
  std::error_code ignored;
  fs::path source = from;
  if (!fs::is_regular_file(from, ignored)) {
    TALLY_TRY(source, checkpoint_in(from));
  }
  TALLY_TRY(const auto reader, checkpoint::Reader::open(source));
  TALLY_TRY(reader->verify());
  const LoadReport report = load_weights(module, *reader);
  if (!report.mismatched.empty())
    return invalid("{} does not fit the model: {}", source.string(),
                   fmt::join(report.mismatched, "; "));
  if (report.loaded == 0)
    return invalid("{} has no tensor of the model: it has {}, and the model {}", source.string(),
                   fmt::join(report.unexpected, ", "), fmt::join(report.missing, ", "));
  std::string text = fmt::format("{} tensors from {}", report.loaded, source.string());
  if (!report.missing.empty())
    text += fmt::format("; not in it, so with random values: {}", fmt::join(report.missing, ", "));
  if (!report.unexpected.empty())
    text += fmt::format("; not in the model, so not used: {}", fmt::join(report.unexpected, ", "));
  return text;
}

Result<void> check_initial_weights(const fs::path& from, const recipes::Recipe& recipe,
                                   const data::Preprocessing& samples) {
  const std::shared_ptr<recipes::Model> model = recipe.make_model(samples);
  TALLY_TRY(load_initial_weights(from, *model));
  return {};
}

}  // namespace tally::app
