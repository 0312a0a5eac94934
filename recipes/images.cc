#include "recipes/images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "data/open.h"

namespace tally::recipes {
namespace {

class ImageRecipe final : public Recipe {
 public:
  explicit ImageRecipe(const ImageKind& kind) : Recipe(kind.facts), kind_(kind) {}

  // The pictures of a folder are read as colour images, other images as they are stored.
  Result<std::unique_ptr<data::Dataset>> open(const DataRequest& request) const override {
    data::OpenOptions options{.train = request.train,
                              .augment = kind_.augment && request.train,
                              .read = request.read,
                              .seed = request.seed};
    TALLY_TRY(const data::Location location, locate(request));
    if (location.kind == data::Kind::kImageFolder)
      options.image = {3, kind_.folder_size, kind_.folder_size};
    return data::open_location(location, options);
  }

  Result<void> accepts(const data::Preprocessing& samples) const override {
    const data::SampleShape& shape = samples.shape;
    const bool images = shape.input.size() == 3 && shape.input_type == DataType::kFloat32 &&
                        shape.input[1] == shape.input[2];
    const bool fits = images && shape.input[1] >= kind_.least && shape.input[1] <= kind_.most;
    const bool labelled = shape.target.empty() && shape.target_type == DataType::kInt64 &&
                          samples.classes.size() >= 2;
    if (!fits || !labelled)
      return invalid(fmt::format(
          "{0} takes labelled images of {1}x{1} to {2}x{2} pixels; these samples are [{3}] {4}{5}",
          name(), kind_.least, kind_.most, fmt::join(shape.input, ", "),
          to_string(shape.input_type), labelled ? "" : " without at least two classes"));
    if (kind_.even_size && shape.input[1] % 2 != 0)
      return invalid(fmt::format("{0} takes images of an even size from {1}x{1} to {2}x{2} pixels",
                                 name(), kind_.least, kind_.most));
    return {};
  }

  Task task(const data::Preprocessing& /*samples*/) const override { return Task::kClassification; }
  bool has_convolutions() const override { return true; }

  std::shared_ptr<Model> make_model(const data::Preprocessing& samples) const override {
    const data::SampleShape& shape = samples.shape;
    return kind_.make_model({.channels = shape.input[0],
                             .size = shape.input[1],
                             .classes = static_cast<std::int64_t>(samples.classes.size())});
  }

 private:
  const ImageKind kind_;
};

}  // namespace

std::unique_ptr<Recipe> make_image_recipe(const ImageKind& kind) {
  return std::make_unique<ImageRecipe>(kind);
}

}  // namespace tally::recipes
