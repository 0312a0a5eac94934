#include "apps/train/use/trained_model.h"

#include <new>

#include <fmt/format.h>

#include "adapters/torch/server_embeddings.h"
#include "adapters/torch/tensors.h"
#include "apps/tally/command_line.h"
#include "apps/train/device.h"
#include "apps/train/use/initial_weights.h"
#include "base/errors.h"
#include "recipes/catalogue.h"
#include "server/snapshot/saved_tables.h"
#include "tally/checkpoint.h"
#include "tally/torch.h"

namespace tally::app {
namespace {

namespace fs = std::filesystem;

Result<std::unique_ptr<recipes::Recipe>> recipe_of(const ModelState& state) {
  for (auto& recipe : recipes::all_recipes()) {
    if (recipe->name() != state.recipe) continue;
    TALLY_TRY(set_values(*recipe, state.options));
    return std::move(recipe);
  }
  return corrupt("the checkpoint is of the recipe {}, which this version does not have",
                 state.recipe);
}

// Reads the sparse tables whose rows are in a snapshot of servers, for the model to use.
Result<void> load_rows(const checkpoint::Reader& reader, TrainedModel& trained) {
  TALLY_TRY(const server::SavedTables tables,
            server::SavedTables::open(reader, server::table_of_embedding("")));
  for (const auto& [name, embedding] : adapter::embeddings_of(*trained.model)) {
    const server::SavedTables::Table* const table = tables.find(name);
    if (table == nullptr) continue;
    if (table->dimension != static_cast<std::uint64_t>(embedding->options().dimension))
      return corrupt("{} has rows of {} numbers in {}, expected {}", reader.path().string(),
                     table->dimension, name, embedding->options().dimension);
    TALLY_TRY(auto saved, tables.load(name));
    trained.rows.push_back(std::make_unique<TrainedRows>(name, std::move(saved)));
    embedding->attach(trained.rows.back().get());
  }
  return {};
}

}  // namespace

Result<TrainedModel> load_model(const fs::path& run, const at::Device& device) {
  TrainedModel trained;
  TALLY_TRY(trained.checkpoint, checkpoint_in(run));
  TALLY_TRY(const auto reader, checkpoint::Reader::open(trained.checkpoint));
  TALLY_TRY(reader->verify());
  trained.step = reader->step();
  TALLY_TRY(trained.training, train_state_of(reader->state()));
  TALLY_TRY(trained.state, model_state_of(reader->state()));
  TALLY_TRY(trained.recipe, recipe_of(trained.state));
  TALLY_TRY(trained.recipe->accepts(trained.state.preprocessing));
  trained.task = trained.recipe->task(trained.state.preprocessing);
  trained.model = trained.recipe->make_model(trained.state.preprocessing);
  TALLY_TRY(load_rows(*reader, trained));
  const LoadReport report = load_weights(*trained.model, *reader);
  if (!report.is_complete())
    return corrupt("{} does not fit its recipe {}: {}", trained.checkpoint.string(),
                   trained.state.recipe, to_string(report));
  trained.model->to(device);
  trained.model->eval();
  for (at::Tensor& parameter : trained.model->parameters()) parameter.set_requires_grad(false);
  return trained;
}

Result<at::Device> device_for(const std::string& name) {
  TALLY_TRY(check_device(name));
  return at::Device(uses_cuda(name) ? at::kCUDA : at::kCPU);
}

int guarded(const std::string& command, const std::function<Result<void>()>& run) {
  // The messages of libtorch's compiler begin with an empty line.
  const auto first_line = [](std::string text) {
    text.erase(0, text.find_first_not_of('\n'));
    return text.substr(0, text.find('\n'));
  };
  const torch::NoGradGuard no_gradients;
  std::string problem;
  try {
    return exit_code_of(run(), command);
  } catch (const Failure& failure) {
    problem = plain_text(failure.error());
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
  } catch (const std::bad_alloc&) {
    problem = "out of memory: a smaller --batch needs less";
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!output_reader_gone()) fmt::print(stderr, "{}: {}\n", command, first_line(problem));
  return 1;
}

}  // namespace tally::app
