// The module has two layers. `model` is the trained model itself: libtorch cannot compile C++, so
// its graph is recorded while it computes an example (trace()). The layer above is source text that
// libtorch compiles: it prepares inputs and turns outputs into answers. Which text depends on the
// preprocessing and on the task.
#include "apps/train/use/torchscript.h"

#include <cmath>
#include <map>

#include <torch/csrc/jit/frontend/tracer.h>

#include "apps/train/use/prediction.h"
#include "base/errors.h"
#include "data/csv.h"

namespace tally::app {
namespace {

using torch::jit::CompilationUnit;
using torch::jit::Module;

// Largest difference of an answer of the module from that of the trained model.
constexpr double kTolerance = 1e-4;

// The answers of the model: probabilities or values.
constexpr const char* kClassify = R"(
def answer(self, output: Tensor) -> Tensor:
    return torch.softmax(output, -1)

def best(self, answers: Tensor) -> List[Tuple[str, float]]:
    result: List[Tuple[str, float]] = []
    for i in range(answers.size(0)):
        label = int(answers[i].argmax())
        result.append((self.classes[label], float(answers[i, label])))
    return result
)";
constexpr const char* kRegress = R"(
def answer(self, output: Tensor) -> Tensor:
    return output.reshape([-1]).double() * self.target_deviation + self.target_mean

def best(self, answers: Tensor) -> List[float]:
    result: List[float] = []
    for i in range(answers.size(0)):
        result.append(float(answers[i]))
    return result
)";

// `result` is the type of best().
std::string predict_source(const std::string& input, const std::string& encoded,
                           const std::string& result) {
  return "\ndef predict(self, inputs: " + input + ") -> " + result +
         ":\n    return self.best(self.forward(" + encoded + "))\n";
}

// Images: bytes or numbers from 0 to 255. An image of another size is cut to its centre and
// resized.
constexpr const char* kImages = R"(
def forward(self, images: Tensor) -> Tensor:
    fits = images.dim() == 4 and images.size(1) == self.channels
    assert fits, "expected images of pixels from 0 to 255: [count, channels, height, width]"
    x = images.float()
    height = x.size(2)
    width = x.size(3)
    if height != self.height or width != self.width:
        scale = min(height / self.height, width / self.width)
        high = int(round(self.height * scale))
        wide = int(round(self.width * scale))
        top = (height - high) // 2
        left = (width - wide) // 2
        x = x[:, :, top:top + high, left:left + wide]
        x = torch._upsample_bilinear2d_aa(x, [self.height, self.width], False, None, None)
    x = (x / 255.0 - self.mean) / self.deviation
    return self.answer(self.model.forward(x))
)";

// Tables: forward() takes the features before they are scaled: a number, or NaN if it is missing;
// for a text column one feature per category, 1 or 0.
constexpr const char* kTables = R"(
def encode(self, rows: List[Dict[str, str]]) -> Tensor:
    features = torch.zeros([len(rows), self.mean.size(0)]).double()
    for i in range(len(rows)):
        row = rows[i]
        for c in range(len(self.columns)):
            column = self.columns[c]
            assert column in row, "a row has no column " + column
            text = row[column].strip()
            if not self.numeric[c]:
                if row[column] in self.categories[c]:
                    text = row[column]  # quoted, with spaces around it
                if text in self.categories[c]:
                    features[i, self.categories[c][text]] = 1.0
            elif text in self.missing_words:
                features[i, self.first[c]] = self.nan
            else:
                value = float(text)
                fits = abs(value) <= 3.4028234663852886e38
                assert fits, "expected a number in column " + column + ", found " + text
                features[i, self.first[c]] = value
    return features.to(self.mean.device)

def forward(self, features: Tensor) -> Tensor:
    x = features.double()
    x = torch.where(torch.isnan(x), self.missing, x.float().double())
    x = ((x - self.mean) / self.deviation).float()
    return self.answer(self.model.forward(x))
)";

constexpr const char* kVectors = R"(
def forward(self, features: Tensor) -> Tensor:
    return self.answer(self.model.forward(features.float()))
)";

// Texts: the model computes whole contexts. Later symbols do not change the scores of earlier ones,
// so a shorter text is filled up.
constexpr const char* kTexts = R"(
def encode(self, text: str) -> Tensor:
    symbols: List[int] = []
    i = 0
    while i < len(text):
        lead = ord(text[i])
        length = 1
        if lead >= 240:
            length = 4
        elif lead >= 224:
            length = 3
        elif lead >= 192:
            length = 2
        symbol = text[i:i + length]
        assert symbol in self.number_of, "the model was not trained on '" + symbol + "'"
        symbols.append(self.number_of[symbol])
        i += length
    return torch.tensor(symbols)

def decode(self, symbols: List[int]) -> str:
    return "".join([self.classes[symbol] for symbol in symbols])

def forward(self, symbols: Tensor) -> Tensor:
    length = symbols.size(1)
    assert length <= self.context, "the text is longer than the context of the model"
    filled = torch.zeros([symbols.size(0), self.context], device=symbols.device).long()
    filled[:, :length] = symbols
    return self.model.forward(filled)[:, :length]

def generate(self, prompt: str, tokens: int, temperature: float) -> str:
    device = self.position.device
    symbols: List[int] = []
    if len(prompt) > 0:
        symbols = [int(symbol) for symbol in self.encode(prompt)]
    elif "\n" in self.number_of:
        symbols = [self.number_of["\n"]]
    else:
        symbols = [0]
    begin = len(symbols)
    for _ in range(tokens):
        window = torch.tensor(symbols[-self.context:], device=device)
        scores = self.forward(window.unsqueeze(0))[0, -1]
        if temperature <= 0.0:
            symbols.append(int(scores.argmax()))
        else:
            symbols.append(int(torch.multinomial(torch.softmax(scores / temperature, -1), 1)))
    return prompt + self.decode(symbols[begin:])
)";

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

Module trace(recipes::Model& model, const at::Tensor& example,
             const std::shared_ptr<CompilationUnit>& unit) {
  Module core(c10::QualifiedName("__torch__.tally.Trained"), unit, /*shouldMangle=*/true);
  copy_tensors(model, "Trained", core, unit);
  const auto compute = [&model](torch::jit::Stack inputs) -> torch::jit::Stack {
    return {model.forward(inputs.at(0).toTensor())};
  };
  const auto no_names = [](const at::Tensor&) { return std::string(); };
  const auto traced = torch::jit::tracer::trace({example}, compute, no_names, /*strict=*/true,
                                                /*force_outplace=*/false, &core, {"input"});
  const auto function = unit->create_function(c10::QualifiedName(*core.type()->name(), "forward"),
                                              traced.first->graph);
  core.type()->addMethod(function);
  return core;
}

// An input of the model that is not constant.
at::Tensor example_input(const data::Preprocessing& samples, std::int64_t count) {
  std::vector<std::int64_t> sizes = {count};
  sizes.insert(sizes.end(), samples.shape.input.begin(), samples.shape.input.end());
  if (samples.shape.input_type == DataType::kInt64)
    return torch::randint(static_cast<std::int64_t>(samples.classes.size()), sizes, at::kLong);
  return torch::randn(sizes);
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
    module_.define(kImages);
    module_.define(predict_source("Tensor", "inputs", best_));
    return {};
  }

  Result<void> operator()(const data::TableEncoding& table) {
    add_columns(table);
    module_.define(kTables);
    module_.define(predict_source("List[Dict[str, str]]", "self.encode(inputs)", best_));
    return {};
  }

  Result<void> operator()(const data::VectorEncoding&) {
    module_.define(kVectors);
    module_.define(predict_source("Tensor", "inputs", best_));
    return {};
  }

  Result<void> operator()(const data::TextEncoding& text) {
    if (text.level == data::TextLevel::kByte)
      return invalid(
          "a model of bytes cannot be a TorchScript file, because its texts are not always UTF-8; "
          "`tally generate` uses it, and --to FILE.safetensors has its weights");
    c10::Dict<std::string, std::int64_t> number_of;
    for (const std::string& symbol : samples_.classes)
      number_of.insert(symbol, static_cast<std::int64_t>(number_of.size()));
    module_.register_attribute(
        "number_of", c10::DictType::create(c10::StringType::get(), c10::IntType::get()), number_of);
    add_number(module_, "context", samples_.shape.input.front());
    module_.register_buffer("position", torch::zeros({1}));
    module_.define(kTexts);
    return {};
  }

  Result<void> operator()(const data::KeyedEncoding&) {
    return invalid(
        "a model of sparse tables cannot be a TorchScript file, because Tally hashes its keys; "
        "`tally predict` uses it, and --to FILE.safetensors has its weights");
  }

  Result<void> operator()(const std::monostate&) {
    return invalid("the model was trained on data that came from no file");
  }

 private:
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
    const at::Tensor input = example_input(samples, count);
    const at::Tensor expected = model.forward(input);
    const at::Tensor found = core.forward({input}).toTensor();
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
  add_texts(module, "classes", samples.classes);
  Preparer preparer(module, samples, regresses ? "List[float]" : "List[Tuple[str, float]]");
  Module core = trace(*trained.model, example_input(samples, 2), unit);
  TALLY_TRY(check_trace(*trained.model, core, samples));
  module.register_module("model", core);
  if (regresses) {
    module.register_attribute("target_mean", c10::FloatType::get(), samples.target_scale.mean);
    module.register_attribute("target_deviation", c10::FloatType::get(),
                              samples.target_scale.deviation);
  }
  if (trained.task != recipes::Task::kLanguage) module.define(regresses ? kRegress : kClassify);
  TALLY_TRY(std::visit(preparer, samples.encoding));
  module.eval();
  return module;
}

}  // namespace tally::app
