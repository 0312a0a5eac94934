#include "recipes/images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/open.h"

namespace tally::recipes {
namespace {

std::string describe(const data::SampleShape& shape) {
  return fmt::format("[{}] {}", fmt::join(shape.input, ", "), to_string(shape.input_type));
}

}  // namespace

Result<void> accepts_images(const std::string& recipe, const ImageNeeds& needs,
                            const data::Dataset& dataset) {
  const data::SampleShape& shape = dataset.shape();
  const bool images = shape.input.size() == 3 && shape.input_type == DataType::kFloat32 &&
                      shape.input[1] == shape.input[2];
  const bool fits = images && shape.input[1] >= needs.least && shape.input[1] <= needs.most;
  const bool labelled = shape.target.empty() && shape.target_type == DataType::kInt64 &&
                        dataset.classes().size() >= 2;
  if (fits && labelled) return {};
  const std::string sizes = needs.least == needs.most
                                ? fmt::format("{0}x{0}", needs.least)
                                : fmt::format("{0}x{0} to {1}x{1}", needs.least, needs.most);
  return Error{.code = ErrorCode::kInvalid,
               .message = fmt::format(
                   "{} takes labelled images of {} pixels; these samples are {}{}", recipe, sizes,
                   describe(shape), labelled ? "" : " without at least two classes")};
}

ImageFacts image_facts(const data::Dataset& dataset) {
  const data::SampleShape& shape = dataset.shape();
  return {.channels = shape.input[0],
          .size = shape.input[1],
          .classes = static_cast<std::int64_t>(dataset.classes().size())};
}

Result<std::unique_ptr<data::Dataset>> open_images(const DataRequest& request,
                                                   const ImageNeeds& needs,
                                                   std::int64_t folder_size) {
  data::OpenOptions options{
      .train = request.train, .augment = needs.augment && request.train, .seed = request.seed};
  TALLY_TRY(const data::Location location, data::locate(request.data, request.cache));
  if (location.kind == data::Kind::kImageFolder) options.image = {3, folder_size, folder_size};
  return data::open_location(location, options);
}

}  // namespace tally::recipes
