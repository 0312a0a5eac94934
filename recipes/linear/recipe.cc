#include "recipes/linear/model.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/errors.h"
#include "data/open.h"
#include "recipes/catalogue.h"
#include "recipes/linear/problem.h"

namespace tally::recipes {

LinearModel::LinearModel(std::int64_t features, std::int64_t outputs)
    : linear_(register_module("linear", torch::nn::Linear(features, outputs))) {
  const torch::NoGradGuard no_gradients;
  for (at::Tensor& parameter : parameters()) parameter.zero_();
}

at::Tensor LinearModel::forward(const at::Tensor& input) {
  return linear_->forward(input.flatten(1));
}

std::vector<double> LinearModel::weights() const {
  const at::Tensor row = linear_->weight.detach()[0].to(at::kCPU, at::kDouble).contiguous();
  std::vector<double> result(row.data_ptr<double>(), row.data_ptr<double>() + row.numel());
  result.push_back(linear_->bias.detach()[0].item<double>());
  return result;
}

namespace {

// Largest difference of a weight from the closed form, due to float32 sums.
constexpr double kTolerance = 1e-5;
// Longer lists of weights are summarised.
constexpr std::size_t kMostListed = 32;

class Linear final : public Recipe {
 public:
  // Full batches: a step sees all samples for any number of workers.
  Linear()
      : Recipe({.name = "linear",
                .description = "linear regression on made data, compared with its closed form; or "
                               "on a csv or libsvm file",
                .defaults = {.batch = 10000,
                             .epochs = 100,

                             .rate = 0.25,
                             .eval_every = "20 epochs"}}) {}

  std::vector<RecipeOption> options() override {
    return {{"samples", "Samples of the made data", &samples_, 1, 1e8},
            {"features", "Weights beside the intercept, of the made data", &features_, 1, 4096},
            {"noise", "Its standard deviation, in the made data", &noise_, 0, 1e6}};
  }

  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    if (!request.data.empty())
      return data::open_dataset(
          request.data, request.cache,
          {.train = request.train, .read = request.read, .seed = request.seed});
    const auto samples = static_cast<std::uint64_t>(samples_);
    const LinearSpec spec{.features = features_, .seed = request.seed, .noise = noise_};
    LinearSamples::Range range{.first = 0, .count = samples};
    if (!request.train)
      range = {.first = samples, .count = std::max<std::uint64_t>(1, samples / 10)};
    return std::unique_ptr<data::Dataset>(std::make_unique<LinearSamples>(spec, range));
  }

  Result<void> accepts(const data::Preprocessing& samples) const override {
    const data::SampleShape& shape = samples.shape;
    if (shape.input_type == DataType::kFloat32 && shape.target.empty()) return {};
    return invalid(
        "linear takes samples of numbers with one target each, as a csv or "
        "libsvm file has");
  }

  Task task(const data::Preprocessing& samples) const override { return task_of_targets(samples); }

  std::shared_ptr<Model> make_model(const data::Preprocessing& samples) const override {
    return std::make_shared<LinearModel>(inputs_of(samples), outputs_for(samples));
  }

  Result<Finish> finish(Model& model, const data::Dataset& train,
                        std::uint64_t /*seed*/) const override {
    if (dynamic_cast<const LinearSamples*>(&train) == nullptr) return Finish{};
    TALLY_TRY(const std::vector<double> exact, least_squares(train));
    return compare(dynamic_cast<LinearModel&>(model).weights(), exact);
  }

 private:
  static Finish compare(const std::vector<double>& learned, const std::vector<double>& exact) {
    Finish finish;
    double largest = 0;
    const bool listed = exact.size() <= kMostListed;
    if (listed)
      finish.text = fmt::format("  {:<10} {:>14} {:>14} {:>12}\n", "weight", "learned",
                                "closed form", "difference");
    for (std::size_t k = 0; k < exact.size(); ++k) {
      const double difference = learned[k] - exact[k];
      largest = std::max(largest, std::abs(difference));
      if (listed)
        finish.text += fmt::format("  {:<10} {:>14.8f} {:>14.8f} {:>12.1e}\n",
                                   k + 1 == exact.size() ? "intercept" : fmt::format("w{}", k),
                                   learned[k], exact[k], difference);
    }
    finish.good = largest <= kTolerance;
    finish.text += fmt::format(
        "largest difference {:.3e}: the learned weights {} the closed-form solution (tolerance {})",
        largest, finish.good ? "match" : "DO NOT MATCH", kTolerance);
    return finish;
  }

  std::int64_t samples_ = 10000;
  std::int64_t features_ = 8;
  double noise_ = 0.1;
};

}  // namespace

std::unique_ptr<Recipe> make_linear() { return std::make_unique<Linear>(); }

}  // namespace tally::recipes
