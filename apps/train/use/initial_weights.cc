// Sparse tables of the model and of the source are matched by name, each of two kinds: by key (rows
// on servers, in a snapshot, or NAME.keys and NAME.weight in a file), or of a fixed size, as a
// tensor NAME.weight whose row is a hash of the key.
//
//   source by key, model by key         assign_rows() pushes the rows to the servers
//   source by key, model of fixed size  fill() copies each row to the row of its key
//   source of fixed size, model by key  refused: the keys are not known
//   both of fixed size                  a tensor like any other
#include "apps/train/use/initial_weights.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include "adapters/torch/server_embeddings.h"
#include "adapters/torch/tensors.h"
#include "base/errors.h"
#include "recipes/model.h"
#include "server/snapshot/saved_tables.h"
#include "tally/checkpoint.h"
#include "tally/torch.h"

namespace tally::app {
namespace {

namespace fs = std::filesystem;
using adapter::NamedEmbedding;
using server::SavedTables;

// Takes the parameter `weight` from embeddings while it lives; afterwards they have the initial
// one.
class WithoutWeights final : public SparseEmbeddingImpl::Rows {
 public:
  explicit WithoutWeights(const std::vector<NamedEmbedding>& embeddings) : embeddings_(embeddings) {
    for (const NamedEmbedding& named : embeddings_) named.embedding->attach(this);
  }
  ~WithoutWeights() override {
    for (const NamedEmbedding& named : embeddings_) named.embedding->attach(nullptr);
  }
  WithoutWeights(const WithoutWeights&) = delete;
  WithoutWeights& operator=(const WithoutWeights&) = delete;
  void pull(std::span<const std::uint64_t> /*keys*/, std::span<float> /*rows*/) override {}

 private:
  const std::vector<NamedEmbedding>& embeddings_;
};

bool take_out(std::vector<std::string>& names, const std::string& name) {
  return std::erase(names, name) > 0;
}

// Copies the rows of a table by key to the parameter `weight`.
Result<void> fill(const NamedEmbedding& named, const SavedTables& tables) {
  const std::int64_t width = named.embedding->options().dimension;
  std::vector<bool> is_taken(static_cast<std::size_t>(named.embedding->options().rows));
  float* const weight = named.embedding->weight.data_ptr<float>();
  return tables.visit(
      named.name,
      [&](std::span<const std::uint64_t> keys, std::span<const float> rows) -> Result<void> {
        for (std::size_t i = 0; i < keys.size(); ++i) {
          const std::int64_t row = named.embedding->row_of(keys[i]);
          if (is_taken[static_cast<std::size_t>(row)])
            return invalid(
                "{} has rows by key, and key {} and another one share row {} of {} rows: train "
                "with home=server, or with more --rows",
                named.name, keys[i], row, is_taken.size());
          is_taken[static_cast<std::size_t>(row)] = true;
          std::copy_n(rows.data() + static_cast<std::int64_t>(i) * width, width,
                      weight + row * width);
        }
        return {};
      });
}

// The embeddings whose `weight` is not the tensor of the source: rows are by key on either side.
std::vector<NamedEmbedding> keyed_embeddings(torch::nn::Module& module, const SavedTables& tables,
                                             plan::Home home) {
  std::vector<NamedEmbedding> embeddings = adapter::embeddings_of(module);
  std::erase_if(embeddings, [&](const NamedEmbedding& named) {
    return home == plan::Home::kGroup && tables.find(named.name) == nullptr;
  });
  return embeddings;
}

// Completes the report with the tables by key. Returns the names of those that are in both.
Result<std::vector<std::string>> match_tables(const std::vector<NamedEmbedding>& embeddings,
                                              const SavedTables& tables, const fs::path& source,
                                              LoadReport& report) {
  std::vector<std::string> matched;
  for (const auto& [name, embedding] : embeddings) {
    const SavedTables::Table* const table = tables.find(name);
    const bool is_tensor = take_out(report.unexpected, server::tensor_name(name, "weight"));
    if (table == nullptr && is_tensor)
      return invalid(
          "{} has {} as a table of a fixed size (home=group), from which no key can be found, and "
          "servers have rows by key: train with home=group",
          source.string(), name);
    take_out(report.unexpected, server::tensor_name(name, "keys"));
    const std::int64_t dimension = embedding->options().dimension;
    if (table == nullptr)
      report.missing.push_back(name);
    else if (static_cast<std::int64_t>(table->dimension) != dimension)
      report.mismatched.push_back(fmt::format("{}: the module has rows of {} numbers, the file {}",
                                              name, dimension, table->dimension));
    else
      matched.push_back(name);
  }
  // Tables of a snapshot are not among the tensors.
  for (const SavedTables::Table& table : tables.tables()) {
    const bool is_known = std::any_of(embeddings.begin(), embeddings.end(),
                                      [&](const auto& named) { return named.name == table.name; });
    if (!is_known && !tables.are_tensors()) report.unexpected.push_back(table.name);
  }
  return matched;
}

std::string text_of(const LoadReport& report, const std::vector<std::string>& tables,
                    const fs::path& source) {
  std::string text = fmt::format("{} tensors", report.loaded);
  if (!tables.empty()) text += fmt::format(" and the rows of {}", fmt::join(tables, ", "));
  text += fmt::format(" from {}", source.string());
  if (!report.missing.empty())
    text += fmt::format("; not in it, so with random values: {}", fmt::join(report.missing, ", "));
  if (!report.unexpected.empty())
    text += fmt::format("; not in the model, so not used: {}", fmt::join(report.unexpected, ", "));
  return text;
}

}  // namespace

Result<fs::path> checkpoint_in(const fs::path& run) {
  std::error_code ignored;
  if (!fs::exists(run, ignored))
    return system_failure("no folder {}: name the folder of `tally train --checkpoint`",
                          run.string());
  if (fs::exists(run / "manifest.json", ignored)) return run;
  return checkpoint::find_latest(run);
}

Result<InitialWeights> load_initial_weights(const fs::path& from, torch::nn::Module& module,
                                            plan::Home home) {
  std::error_code ignored;
  fs::path source = from;
  if (!fs::exists(from, ignored))
    return system_failure(
        "no file or folder {}: give a safetensors file or the folder of `tally train --checkpoint`",
        from.string());
  if (from.extension() == ".pt" || from.extension() == ".pth")
    return invalid(
        "{} is a file of PyTorch: give a safetensors file, as of safetensors.torch.save_file or "
        "`tally export RUN --to X.safetensors`",
        from.string());
  if (!fs::is_regular_file(from, ignored)) {
    TALLY_TRY(source, checkpoint_in(from));
  }
  TALLY_TRY(std::shared_ptr<checkpoint::Reader> reader, checkpoint::Reader::open(source));
  TALLY_TRY(reader->verify());
  TALLY_TRY(SavedTables opened, SavedTables::open(*reader, server::table_of_embedding("")));
  const auto tables = std::make_shared<const SavedTables>(std::move(opened));
  const std::vector<NamedEmbedding> embeddings = keyed_embeddings(module, *tables, home);
  LoadReport report;
  {
    const WithoutWeights hidden(embeddings);
    report = load_weights(module, *reader);
  }
  TALLY_TRY(const std::vector<std::string> matched,
            match_tables(embeddings, *tables, source, report));
  if (!report.mismatched.empty())
    return invalid("{} does not fit the model: {}", source.string(),
                   fmt::join(report.mismatched, "; "));
  if (report.loaded == 0 && matched.empty())
    return invalid("{} has no tensor of the model: it has {}, and the model {}", source.string(),
                   fmt::join(report.unexpected, ", "), fmt::join(report.missing, ", "));
  InitialWeights initial{.text = text_of(report, matched, source), .assign_rows = {}};
  if (matched.empty()) return initial;
  if (home == plan::Home::kGroup) {
    for (const NamedEmbedding& named : embeddings) TALLY_TRY(fill(named, *tables));
    return initial;
  }
  // The tables read from `reader`.
  initial.assign_rows = [reader, tables, matched](Trainer& trainer) {
    for (const std::string& name : matched) {
      if (!trainer.is_first()) break;
      or_throw(tables->visit(
          name,
          [&](std::span<const std::uint64_t> keys, std::span<const float> rows) -> Result<void> {
            trainer.assign_rows(name, keys, rows);
            return {};
          }));
    }
    // No rank trains before all rows are there.
    trainer.sum({});
  };
  return initial;
}

Result<void> check_initial_weights(const fs::path& from, const recipes::Recipe& recipe,
                                   const data::Preprocessing& samples, plan::Home home) {
  const std::shared_ptr<recipes::Model> model = recipe.make_model(samples);
  TALLY_TRY(load_initial_weights(from, *model, home));
  return {};
}

}  // namespace tally::app
