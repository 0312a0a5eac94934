#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "data/dataset.h"
#include "recipes/task.h"
#include "tally/error.h"

namespace tally::recipes {

class Model;

// How a recipe is trained unless the user says otherwise; the texts are those of the command line.
struct Defaults {
  std::string data;
  std::uint64_t batch = 64;  // samples per worker and step
  std::uint64_t epochs = 10;
  std::string optimizer = "sgd";
  double rate = 0.1;
  std::string schedule = "constant";
  std::uint64_t warmup = 0;  // steps, of a training that is long enough: at most a tenth of it
  double clip_norm = 0;      // 0: gradients are not clipped
  std::string eval_every = "1 epoch";
};

// An option that only this recipe has. `value` belongs to the recipe and holds the default; what is
// given lies between `least` and `most`.
struct RecipeOption {
  std::string name;  // without the dashes
  std::string what;
  std::variant<std::int64_t*, double*> value;
  double least = 0;
  double most = 0;
  bool of_model = true;  // another value makes another model, which older checkpoints do not fit
};

// Which part of which data.
struct DataRequest {
  std::string data;  // a name or a path; empty: made by the recipe, where it can
  std::filesystem::path cache;
  bool train = true;
  std::uint64_t seed = 1;
};

// What there is to say once a model is trained.
struct Finish {
  std::string text;
  bool good = true;  // false: the result is not what it must be
};

// A model, its data and its defaults. Threads: one at a time.
class Recipe {
 public:
  virtual ~Recipe() = default;

  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  virtual Defaults defaults() const = 0;
  virtual std::vector<RecipeOption> options() { return {}; }
  // kInvalid if options do not go together.
  virtual Result<void> check_options() const { return {}; }

  virtual Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const = 0;
  // kInvalid, with what it takes instead, where no model can be made for such samples.
  virtual Result<void> accepts(const data::Dataset& dataset) const = 0;
  virtual Task task(const data::Dataset& dataset) const = 0;
  // For a dataset that it accepts. Drawn from torch's random numbers.
  virtual std::shared_ptr<Model> make_model(const data::Dataset& dataset) const = 0;

  // Looks at the trained model, on one worker. `seed` decides whatever is drawn.
  virtual Result<Finish> finish(Model& model, const data::Dataset& train,
                                std::uint64_t seed) const = 0;
};

}  // namespace tally::recipes
