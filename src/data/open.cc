#include "data/open.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "data/image_folder.h"
#include "data/keyed_open.h"
#include "data/libsvm.h"
#include "data/pixel_files.h"
#include "data/subset.h"

namespace tally::data {
namespace {

constexpr int kIdxShift = 2;
constexpr int kCifarShift = 4;

Split split_of(const OpenOptions& options) {
  return {.validation = options.read.validation.value_or(kDefaultValidation),
          .train = options.train,
          .seed = options.seed};
}

Error no_part(const Location& location, const OpenOptions& options) {
  const auto& other = options.train ? location.test : location.train;
  return {.code = ErrorCode::kSystem,
          .message = fmt::format("no {} part found beside {}", options.train ? "training" : "test",
                                 other.empty() ? "it" : other.front().string())};
}

// Returns the selected part: splits the dataset if it has no test part.
std::unique_ptr<Dataset> own_part(const Location& location, std::unique_ptr<Dataset> whole,
                                  const OpenOptions& options) {
  if (!location.test.empty()) return whole;
  auto indices = part_of(whole->size(), split_of(options));
  return make_subset(std::move(whole), std::move(indices));
}

const std::vector<std::filesystem::path>& files_of(const Location& location,
                                                   const OpenOptions& options) {
  return options.train || location.test.empty() ? location.train : location.test;
}

Result<std::optional<ImageSize>> wanted_size(const OpenOptions& options) {
  if (options.image.empty()) return std::optional<ImageSize>();
  constexpr std::int64_t kMaxSide = 4096;
  const auto& image = options.image;
  const bool fits = image.size() == 3 && (image[0] == 1 || image[0] == 3) && image[1] > 0 &&
                    image[1] <= kMaxSide && image[2] > 0 && image[2] <= kMaxSide;
  if (!fits) {
    return invalid(fmt::format("images of {}: give 1 or 3 channels, height and width up to {}",
                               fmt::join(image, " x "), kMaxSide));
  }
  return std::optional(ImageSize{static_cast<int>(image[0]), static_cast<int>(image[1]),
                                 static_cast<int>(image[2])});
}

std::vector<std::string> class_names(const Location& location, int classes) {
  std::vector<std::string> names;
  if (location.known != nullptr)
    names.assign(location.known->classes.begin(), location.known->classes.end());
  for (auto i = static_cast<int>(names.size()); i < classes; ++i)
    names.push_back(fmt::format("{}", i));
  return names;
}

// The scale from the catalog, or measured on the training samples.
PixelScale scale_of(const Location& location, const PixelSamples& training) {
  if (location.known == nullptr) return measure_scale(training);
  const CatalogEntry& entry = *location.known;
  return {{entry.mean.begin(), entry.mean.end()}, {entry.deviation.begin(), entry.deviation.end()}};
}

Result<std::unique_ptr<Dataset>> open_idx(const Location& location, const OpenOptions& options) {
  PixelOptions pixels{.shift = options.augment ? kIdxShift : 0};
  TALLY_TRY(pixels.image, wanted_size(options));
  const auto& files = files_of(location, options);
  if (files.empty()) return no_part(location, options);
  std::optional<int> classes;
  if (location.known != nullptr) classes = static_cast<int>(location.known->classes.size());
  // The training part determines the scale of the test part.
  const bool other_part =
      &files != &location.train && location.known == nullptr && !location.train.empty();
  if (other_part) {
    TALLY_TRY(const PixelSamples training,
              read_idx(location.train[0], location.train[1], std::nullopt, location.readers));
    TALLY_TRY(classes, count_classes(training.labels, location.train[1].string()));
    if (options.normalise) pixels.scale = measure_scale(training);
  }
  TALLY_TRY(PixelSamples samples, read_idx(files[0], files[1], classes, location.readers));
  if (!classes) {
    TALLY_TRY(classes, count_classes(samples.labels, files[1].string()));
  }
  if (options.normalise && !pixels.scale) pixels.scale = scale_of(location, samples);
  return own_part(location,
                  make_pixel_dataset(std::move(samples), class_names(location, *classes), pixels),
                  options);
}

Result<std::unique_ptr<Dataset>> open_cifar(const Location& location, const OpenOptions& options) {
  PixelOptions pixels{.shift = options.augment ? kCifarShift : 0, .flip = options.augment};
  TALLY_TRY(pixels.image, wanted_size(options));
  const auto& files = files_of(location, options);
  if (files.empty()) return no_part(location, options);
  // The format belongs to CIFAR-10, so use its classes, mean and deviation for any files.
  Location known = location;
  known.known = find_in_catalog("cifar10");
  TALLY_TRY(PixelSamples samples, read_cifar(files, location.readers));
  if (options.normalise) pixels.scale = scale_of(known, samples);
  return own_part(location,
                  make_pixel_dataset(std::move(samples), class_names(known, kCifarClasses), pixels),
                  options);
}

Result<std::unique_ptr<Dataset>> open_images(const Location& location, const OpenOptions& options) {
  ImageFolderOptions images{.augment = options.augment, .normalise = options.normalise};
  TALLY_TRY(images.image, wanted_size(options));
  const auto& folders = files_of(location, options);
  // Both parts must map a class to the same label, and have the same size.
  if (!location.test.empty()) {
    TALLY_TRY(images.classes, class_folders(location.train.front()));
  }
  if (!images.image && &folders != &location.train) {
    TALLY_TRY(const auto training, open_image_folder(location.train.front(), images));
    const std::vector<std::int64_t>& shape = training->shape().input;
    images.image = ImageSize{static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                             static_cast<int>(shape[2])};
  }
  TALLY_TRY(auto whole, open_image_folder(folders.front(), images));
  return own_part(location, std::move(whole), options);
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_location(const Location& location,
                                               const OpenOptions& options) {
  TALLY_TRY(check(split_of(options)));
  switch (location.kind) {
    case Kind::kIdx:
      return open_idx(location, options);
    case Kind::kCifar:
      return open_cifar(location, options);
    case Kind::kImageFolder:
      return open_images(location, options);
    case Kind::kText:
      return open_text(location.train, location.test,
                       {.level = options.read.level,
                        .context = options.context == 0 ? kDefaultContext : options.context,
                        .validation = split_of(options).validation,
                        .train = options.train,
                        .readers = location.readers,
                        .augment = options.augment && options.train});
    case Kind::kCsv:
      return open_csv(location.train, location.test,
                      {.split = split_of(options),
                       .target_column = options.read.target_column,
                       .target = options.read.target,
                       .readers = location.readers,
                       .standardise = options.normalise});
    case Kind::kLibsvm:
      return open_libsvm(location.train, location.test, split_of(options), location.readers);
    case Kind::kMovieLens: {
      TALLY_TRY(std::unique_ptr<Dataset> ratings, open_keyed(location, split_of(options)));
      return ratings;
    }
  }
  return no_part(location, options);
}

Result<std::unique_ptr<Dataset>> open_dataset(const std::string& name_or_path,
                                              const std::filesystem::path& cache_folder,
                                              const OpenOptions& options) {
  TALLY_TRY(const Location location, locate_parts(name_or_path, cache_folder, options.read));
  return open_location(location, options);
}

}  // namespace tally::data
