// The module has two layers. `model` is the trained model itself: libtorch cannot compile C++, so
// its graph is recorded while it computes an example (trace()). The layer above is source text that
// libtorch compiles (torchscript_sources.h): it prepares inputs and turns outputs into answers. The
// preprocessing and the task select the texts.
#include "apps/train/use/torchscript.h"

#include <cmath>
#include <map>

#include <torch/csrc/jit/frontend/tracer.h>

#include "apps/train/use/prediction.h"
#include "apps/train/use/torchscript_sources.h"
#include "base/errors.h"
#include "base/rng.h"
#include "data/csv.h"
#include "data/keyed_columns.h"
#include "data/text.h"
#include "recipes/keyed.h"

namespace tally::app {
namespace {

using torch::jit::CompilationUnit;
using torch::jit::Module;

// Largest difference of an answer of the module from that of the trained model.
constexpr double kTolerance = 1e-4;
// U+FFFD, in place of bytes that are not UTF-8.
constexpr std::uint32_t kReplacement = 0xFFFD;

// `result` is the type of best().
std::string predict_source(const std::string& input, const std::string& encoded,
                           const std::string& result) {
  return "\ndef predict(self, inputs: " + input + ") -> " + result +
         ":\n    return self.best(self.forward(" + encoded + "))\n";
}

// Copies parameters, buffers and submodules, which keep their names.
void copy_tensors(const torch::nn::Module& from, const std::string& path, Module& to,
                  const std::shared_ptr<CompilationUnit>& unit) {
  for (const auto& parameter : from.named_parameters(/*recurse=*/false))
    to.register_parameter(parameter.key(), parameter.value(), /*is_buffer=*/false);
  for (const auto& buffer : from.named_buffers(/*recurse=*/false))
    to.register_buffer(buffer.key(), buffer.value());
  for (const auto& child : from.named_children()) {
    const std::string name = path + "_" + child.key();
    Module copy(c10::QualifiedName("__torch__.tally." + name), unit, /*shouldMangle=*/true);
    copy_tensors(*child.value(), name, copy, unit);
    to.register_module(child.key(), copy);
  }
}

// The tensors that `model` takes: keys and values of a model on keys, otherwise one.
using ModelInputs = std::vector<at::Tensor>;

at::Tensor model_output(recipes::Model& model, const ModelInputs& inputs) {
  if (auto* const keyed = dynamic_cast<recipes::KeyedModel*>(&model))
    return keyed->forward_batch({.keys = inputs.at(0), .values = inputs.at(1)});
  return model.forward(inputs.at(0));
}

Module trace(recipes::Model& model, const ModelInputs& example,
             const std::shared_ptr<CompilationUnit>& unit) {
  Module core(c10::QualifiedName("__torch__.tally.Trained"), unit, /*shouldMangle=*/true);
  copy_tensors(model, "Trained", core, unit);
  const auto compute = [&model](torch::jit::Stack inputs) -> torch::jit::Stack {
    ModelInputs tensors;
    for (const c10::IValue& input : inputs) tensors.push_back(input.toTensor());
    return {model_output(model, tensors)};
  };
  const auto no_names = [](const at::Tensor&) { return std::string(); };
  const std::vector<std::string> names = example.size() == 1
                                             ? std::vector<std::string>{"input"}
                                             : std::vector<std::string>{"keys", "values"};
  const auto traced = torch::jit::tracer::trace(torch::jit::Stack(example.begin(), example.end()),
                                                compute, no_names, /*strict=*/true,
                                                /*force_outplace=*/false, &core, names);
  const auto function = unit->create_function(c10::QualifiedName(*core.type()->name(), "forward"),
                                              traced.first->graph);
  core.type()->addMethod(function);
  return core;
}

// Rows of keys: large and small ones, and empty slots.
ModelInputs example_keys(std::int64_t count, std::int64_t slots) {
  const std::vector<std::int64_t> of_row = {count, slots};
  const at::Tensor large = torch::randint(std::int64_t{1} << 62, of_row, at::kLong);
  const at::Tensor small = torch::randint(1000, of_row, at::kLong);
  const at::Tensor choice = torch::randint(4, of_row, at::kLong);
  const at::Tensor keys =
      torch::where(choice.eq(0), small, large).masked_fill(choice.eq(1), data::kNoKey);
  return {keys, torch::randn(of_row, at::kDouble)};
}

// Inputs of the model that are not constant.
ModelInputs example_inputs(const data::Preprocessing& samples, std::int64_t count) {
  if (std::holds_alternative<data::KeyedEncoding>(samples.encoding))
    return example_keys(count, samples.shape.input.at(1));
  std::vector<std::int64_t> sizes = {count};
  sizes.insert(sizes.end(), samples.shape.input.begin(), samples.shape.input.end());
  if (samples.shape.input_type == DataType::kInt64)
    return {torch::randint(static_cast<std::int64_t>(samples.classes.size()), sizes, at::kLong)};
  return {torch::randn(sizes)};
}

void add_texts(Module& module, const std::string& name, const std::vector<std::string>& texts) {
  c10::List<std::string> list;
  for (const std::string& text : texts) list.push_back(text);
  module.register_attribute(name, c10::ListType::ofStrings(), list);
}

void add_number(Module& module, const std::string& name, std::int64_t value) {
  module.register_attribute(name, c10::IntType::get(), value);
}

// A buffer of one number per channel, [channels, 1, 1].
at::Tensor by_channel(const std::vector<float>& values) {
  return torch::tensor(values).reshape({-1, 1, 1});
}

// Adds attributes, buffers and methods for one kind of preprocessing.
class Preparer final {
 public:
  Preparer(Module& module, const data::Preprocessing& samples, std::string best)
      : module_(module), samples_(samples), best_(std::move(best)) {}

  Result<void> operator()(const data::ImageEncoding& image) {
    add_number(module_, "channels", samples_.shape.input[0]);
    add_number(module_, "height", samples_.shape.input[1]);
    add_number(module_, "width", samples_.shape.input[2]);
    module_.register_buffer("mean", by_channel(image.scale.mean));
    module_.register_buffer("deviation", by_channel(image.scale.deviation));
    module_.define(torchscript::kImages);
    module_.define(predict_source("Tensor", "inputs", best_));
    return {};
  }

  Result<void> operator()(const data::TableEncoding& table) {
    add_columns(table);
    module_.define(torchscript::kNumbers);
    module_.define(torchscript::kTables);
    module_.define(predict_source("List[Dict[str, str]]", "self.encode(inputs)", best_));
    return {};
  }

  Result<void> operator()(const data::VectorEncoding&) {
    module_.define(torchscript::kVectors);
    module_.define(predict_source("Tensor", "inputs", best_));
    return {};
  }

  Result<void> operator()(const data::TextEncoding& text) {
    add_number(module_, "context", samples_.shape.input.front());
    module_.register_buffer("position", torch::zeros({1}));
    module_.define(torchscript::kSymbols);
    if (text.level == data::TextLevel::kByte) {
      module_.register_attribute("replacement", c10::StringType::get(),
                                 data::utf8_of(kReplacement));
      module_.define(torchscript::kBytes);
      return {};
    }
    c10::Dict<std::string, std::int64_t> number_of;
    for (const std::string& symbol : samples_.classes)
      number_of.insert(symbol, static_cast<std::int64_t>(number_of.size()));
    module_.register_attribute(
        "number_of", c10::DictType::create(c10::StringType::get(), c10::IntType::get()), number_of);
    add_texts(module_, "classes", samples_.classes);
    module_.define(torchscript::kCharacters);
    return {};
  }

  Result<void> operator()(const data::KeyedEncoding& keyed) {
    add_number(module_, "slots", samples_.shape.input[1]);
    module_.define(torchscript::kKeys);
    if (keyed.columns.empty()) {
      module_.define("\ndef predict(self, keys: Tensor, values: Tensor) -> " + best_ +
                     ":\n    return self.best(self.forward(keys, values))\n");
      return {};
    }
    add_keyed_columns(keyed);
    module_.define(torchscript::kNumbers);
    module_.define(torchscript::kKeyedColumns);
    module_.define("\ndef predict(self, inputs: List[Dict[str, str]]) -> " + best_ + ":" +
                   torchscript::kPredictRows);
    return {};
  }

  Result<void> operator()(const std::monostate&) {
    return invalid("the model was trained on data that came from no file");
  }

 private:
  void add_keyed_columns(const data::KeyedEncoding& keyed) {
    std::vector<std::string> names;
    c10::List<std::int64_t> kinds;
    c10::List<std::int64_t> salts;
    c10::List<std::int64_t> value_keys;
    c10::List<double> means;
    c10::List<double> deviations;
    c10::impl::GenericList bounds(c10::ListType::ofFloats());
    for (std::size_t i = 0; i < keyed.columns.size(); ++i) {
      if (i == keyed.target) continue;
      const data::KeyedColumn& column = keyed.columns[i];
      names.push_back(column.name);
      kinds.push_back(static_cast<std::int64_t>(column.kind));
      // The part of data::key_of() that does not depend on the category.
      salts.push_back(static_cast<std::int64_t>(Rng(data::text_hash(column.name)).next()));
      value_keys.push_back(data::key_of(data::value_field_of(column.name), ""));
      means.push_back(column.mean);
      deviations.push_back(column.deviation);
      bounds.push_back(c10::List<double>(column.bounds));
    }
    using Kind = data::KeyedColumn::Kind;
    add_number(module_, "text_kind", static_cast<std::int64_t>(Kind::kText));
    add_number(module_, "number_kind", static_cast<std::int64_t>(Kind::kNumber));
    add_texts(module_, "columns", names);
    add_texts(module_, "missing_words", data::missing_words());
    module_.register_attribute("kinds", c10::ListType::ofInts(), kinds);
    module_.register_attribute("salts", c10::ListType::ofInts(), salts);
    module_.register_attribute("value_keys", c10::ListType::ofInts(), value_keys);
    module_.register_attribute("means", c10::ListType::ofFloats(), means);
    module_.register_attribute("deviations", c10::ListType::ofFloats(), deviations);
    module_.register_attribute("bounds", c10::ListType::create(c10::ListType::ofFloats()), bounds);
    module_.register_attribute("spaces", c10::StringType::get(), std::string(data::kSpaces));
    module_.register_attribute("most_whole", c10::FloatType::get(), data::kMostWhole);
    module_.register_attribute("most_deviations", c10::FloatType::get(), data::kMostDeviations);
    module_.register_buffer("position", torch::zeros({1}));
  }

  void add_columns(const data::TableEncoding& table) {
    const auto categories_type = c10::DictType::create(c10::StringType::get(), c10::IntType::get());
    std::vector<std::string> names;
    c10::List<bool> numeric;
    c10::List<std::int64_t> first;
    c10::impl::GenericList categories(categories_type);
    std::vector<double> missing;
    std::vector<double> mean;
    std::vector<double> deviation;
    for (const data::ColumnEncoding& column : table.columns) {
      if (column.features.empty()) continue;  // the target
      names.push_back(column.name);
      numeric.push_back(column.categories.empty());
      first.push_back(static_cast<std::int64_t>(mean.size()));
      c10::Dict<std::string, std::int64_t> feature_of;
      for (const std::string& category : column.categories)
        feature_of.insert(category, static_cast<std::int64_t>(mean.size() + feature_of.size()));
      categories.push_back(feature_of);
      for (const data::FeatureScale& scale : column.features) {
        missing.push_back(scale.missing);
        mean.push_back(scale.mean);
        deviation.push_back(scale.deviation);
      }
    }
    add_texts(module_, "columns", names);
    add_texts(module_, "missing_words", data::missing_words());
    module_.register_attribute("numeric", c10::ListType::ofBools(), numeric);
    module_.register_attribute("first", c10::ListType::ofInts(), first);
    module_.register_attribute("categories", c10::ListType::create(categories_type), categories);
    module_.register_attribute("nan", c10::FloatType::get(), std::nan(""));
    module_.register_buffer("missing", torch::tensor(missing, at::kDouble));
    module_.register_buffer("mean", torch::tensor(mean, at::kDouble));
    module_.register_buffer("deviation", torch::tensor(deviation, at::kDouble));
  }

  Module& module_;
  const data::Preprocessing& samples_;
  const std::string best_;
};

// The recorded graph must give the outputs of the model for any number of samples.
Result<void> check_trace(recipes::Model& model, Module& core, const data::Preprocessing& samples) {
  for (const std::int64_t count : {1, 3}) {
    const ModelInputs inputs = example_inputs(samples, count);
    const at::Tensor expected = model_output(model, inputs);
    const at::Tensor found =
        core.forward(torch::jit::Stack(inputs.begin(), inputs.end())).toTensor();
    const bool same = found.sizes() == expected.sizes() &&
                      (found - expected).abs().max().item<double>() <= kTolerance;
    if (!same)
      return make_error(ErrorCode::kMismatch,
                        "the TorchScript module does not compute what the model computes");
  }
  return {};
}

}  // namespace

Result<Module> to_torchscript(const TrainedModel& trained) {
  const data::Preprocessing& samples = trained.state.preprocessing;
  const auto unit = std::make_shared<CompilationUnit>();
  Module module(c10::QualifiedName("__torch__.tally.Model"), unit, /*shouldMangle=*/true);
  const bool regresses = trained.task == recipes::Task::kRegression;
  Preparer preparer(module, samples, regresses ? "List[float]" : "List[Tuple[str, float]]");
  Module core = trace(*trained.model, example_inputs(samples, 2), unit);
  TALLY_TRY(check_trace(*trained.model, core, samples));
  module.register_module("model", core);
  if (regresses) {
    module.register_attribute("target_mean", c10::FloatType::get(), samples.target_scale.mean);
    module.register_attribute("target_deviation", c10::FloatType::get(),
                              samples.target_scale.deviation);
  }
  if (trained.task != recipes::Task::kLanguage) {
    const bool binary = trained.task == recipes::Task::kBinary;
    add_texts(module, "classes", samples.classes);
    module.define(regresses ? torchscript::kRegress
                  : binary  ? torchscript::kDecide
                            : torchscript::kClassify);
    module.define(regresses ? torchscript::kBestValue : torchscript::kBestClass);
  }
  TALLY_TRY(std::visit(preparer, samples.encoding));
  module.eval();
  return module;
}

}  // namespace tally::app
