#include "base/errors.h"
#include "data/open.h"
#include "recipes/catalogue.h"
#include "recipes/gpt/model.h"
#include "recipes/gpt/sampling.h"

namespace tally::recipes {
namespace {

class GptRecipe final : public Recipe {
 public:
  GptRecipe()
      : Recipe({.name = "gpt",
                .description = "a decoder with causal attention on the characters of a text, which "
                               "it then continues",
                .defaults = {.data = "moby-dick",
                             .batch = 16,
                             .epochs = 4,
                             .optimizer = "adamw:beta2=0.99,decay=0.1",
                             .rate = 3e-3,
                             .schedule = "cosine:min=0.1",
                             .warmup = 100,
                             .clip_norm = 1}}) {}

  std::vector<RecipeOption> options() override {
    return {{"layers", "Blocks of attention and feed-forward layers", &shape_.layers, 1, 1000},
            {"width", "Numbers per symbol between the blocks", &shape_.width, 1, 65536},
            {"heads", "Heads of attention; they divide the width", &shape_.heads, 1, 65536},
            {"context", "Symbols that a prediction sees at most", &shape_.context, 1, 1 << 20},
            {"dropout", "Share of numbers left out while training", &shape_.dropout, 0, 0.99},
            {"bias", "1: linear layers and norms have biases; 0: none has one", &bias_, 0, 1},
            {"sample-length", "Characters to write at the end", &sampling_.length, 0, 1e6},
            {"temperature", "Of that text: below 1 the likelier, above 1 the rarer come oftener",
             &sampling_.temperature, 1e-3, 100},
            {"top-k", "Generated text: draw from the N best characters only; 0: all",
             &sampling_.top_k, 0, 1e6}};
  }
  Result<void> check_options() const override {
    if (shape_.width % shape_.heads == 0) return {};
    return invalid("--heads {} does not divide --width {}", shape_.heads, shape_.width);
  }
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    return data::open_dataset(request.data, request.cache,
                              {.train = request.train,
                               .augment = request.train,
                               .context = shape_.context,
                               .read = request.read,
                               .seed = request.seed});
  }
  Result<void> accepts(const data::Preprocessing& samples) const override {
    const data::SampleShape& shape = samples.shape;
    const bool text = shape.input_type == DataType::kInt64 &&
                      shape.target_type == DataType::kInt64 && shape.input == shape.target &&
                      shape.input.size() == 1 && samples.classes.size() >= 2;
    if (text) return {};
    return invalid("gpt takes a text, and these data are none");
  }
  Task task(const data::Preprocessing& /*samples*/) const override { return Task::kLanguage; }
  std::shared_ptr<Model> make_model(const data::Preprocessing& samples) const override {
    GptShape shape = shape_;
    shape.symbols = static_cast<std::int64_t>(samples.classes.size());
    shape.bias = bias_ != 0;
    return std::make_shared<Gpt>(shape);
  }

  // Generates text after the first words of the dataset.
  Result<Finish> finish(Model& model, const data::Dataset& train,
                        std::uint64_t seed) const override {
    if (sampling_.length == 0) return Finish{};
    std::vector<std::int64_t> window(static_cast<std::size_t>(shape_.context));
    std::vector<std::int64_t> next(window.size());
    Rng unmoved(seed);
    TALLY_TRY(train.read(0, unmoved, std::as_writable_bytes(std::span<std::int64_t>(window)),
                         std::as_writable_bytes(std::span<std::int64_t>(next))));
    SampleOptions options = sampling_;
    options.seed = seed;
    const std::vector<std::string> alphabet = train.classes();
    Finish finish;
    for (const std::int64_t symbol : sample(dynamic_cast<Gpt&>(model), window, options))
      finish.text += alphabet[static_cast<std::size_t>(symbol)];
    return finish;
  }

 private:
  GptShape shape_;
  std::int64_t bias_ = 1;
  SampleOptions sampling_;
};

}  // namespace

std::unique_ptr<Recipe> make_gpt() { return std::make_unique<GptRecipe>(); }

}  // namespace tally::recipes
