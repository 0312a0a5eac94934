#include "data/open_like.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "data/csv.h"
#include "data/image_folder.h"
#include "data/keyed_open.h"
#include "data/libsvm.h"
#include "data/pixel_files.h"
#include "data/scaled_targets.h"

namespace tally::data {
namespace {

// Names the kind of data that a model with this preprocessing takes, for messages.
std::string taken_by(const Preprocessing& like) {
  struct Names {
    std::string operator()(const std::monostate&) const { return "no files"; }
    std::string operator()(const ImageEncoding&) const { return "images (.jpg, .png or IDX)"; }
    std::string operator()(const TableEncoding&) const { return "tables (.csv)"; }
    std::string operator()(const TextEncoding&) const { return "texts"; }
    std::string operator()(const VectorEncoding&) const { return "rows in libsvm's form"; }
    std::string operator()(const KeyedEncoding& keyed) const {
      if (keyed.fields.empty()) return "rows in libsvm's form";
      return keyed.columns.empty() ? "tables of the trained fields" : "tables (.csv)";
    }
  };
  return std::visit(Names(), like.encoding);
}

Error other_kind(const Location& location, const Preprocessing& like) {
  return invalid("{} is of the kind {}, and the model takes {}",
                 location.train.empty() ? "it" : location.train.front().string(),
                 to_string(location.kind), taken_by(like));
}

ImageSize image_size_of(const Preprocessing& like) {
  const auto& shape = like.shape.input;
  return {static_cast<int>(shape[0]), static_cast<int>(shape[1]), static_cast<int>(shape[2])};
}

const std::vector<std::filesystem::path>& judged_files(const Location& location) {
  return location.test.empty() ? location.train : location.test;
}

// Reads IDX images with their labels. Without a file of labels they are 0 if they may be.
Result<PixelSamples> read_idx_like(const std::vector<std::filesystem::path>& files,
                                   std::size_t classes, Targets targets) {
  std::error_code ignored;
  if (targets == Targets::kIgnored || !std::filesystem::exists(files[1], ignored)) {
    if (targets == Targets::kNeeded)
      return system_failure("{} has no labels beside it: expected {}", files[0].string(),
                            files[1].string());
    return read_idx_images(files[0]);
  }
  return read_idx(files[0], files[1], static_cast<int>(classes));
}

Result<std::unique_ptr<Dataset>> open_pictures(const Location& location, const Preprocessing& like,
                                               const ImageEncoding& encoding, Targets targets) {
  const auto& files = judged_files(location);
  if (location.kind == Kind::kImageFolder)
    return open_image_folder(
        files.front(),
        {.image = image_size_of(like), .classes = like.classes, .scale = encoding.scale});
  PixelSamples samples;
  if (location.kind == Kind::kIdx) {
    TALLY_TRY(samples, read_idx_like(files, like.classes.size(), targets));
  } else {
    TALLY_TRY(samples, read_cifar(files));
    if (like.classes.size() < kCifarClasses)
      return invalid("{} has {} classes, and the model {}", files.front().string(), kCifarClasses,
                     like.classes.size());
  }
  return make_pixel_dataset(std::move(samples), like.classes,
                            {.image = image_size_of(like), .scale = encoding.scale});
}

Result<std::unique_ptr<Dataset>> open_unscaled(const Location& location, const Preprocessing& like,
                                               Targets targets) {
  if (judged_files(location).empty()) return other_kind(location, like);
  const bool needed = targets == Targets::kNeeded;
  constexpr std::array kPictures{Kind::kIdx, Kind::kCifar, Kind::kImageFolder};
  const bool pictures =
      std::find(kPictures.begin(), kPictures.end(), location.kind) != kPictures.end();
  if (const auto* const image = std::get_if<ImageEncoding>(&like.encoding); image && pictures)
    return open_pictures(location, like, *image, targets);
  if (const auto* const keyed = std::get_if<KeyedEncoding>(&like.encoding)) {
    TALLY_TRY(std::unique_ptr<Dataset> rows,
              open_keyed_like(judged_files(location).front(),
                              {.encoding = *keyed,
                               .slots = static_cast<std::uint64_t>(like.shape.input.at(1)),
                               .classes = like.classes,
                               .needs_labels = needed}));
    return rows;
  }
  if (const auto* const table = std::get_if<TableEncoding>(&like.encoding);
      table && location.kind == Kind::kCsv)
    return open_csv_like(judged_files(location).front(), *table, needed);
  if (const auto* const text = std::get_if<TextEncoding>(&like.encoding);
      text && location.kind == Kind::kText)
    return open_text_like(location.train, like.classes, text->level, like.shape.input.front());
  if (std::holds_alternative<VectorEncoding>(like.encoding) && location.kind == Kind::kLibsvm)
    return open_libsvm_like(judged_files(location).front(),
                            static_cast<std::uint32_t>(like.shape.input.front()), like.classes,
                            needed);
  return other_kind(location, like);
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_like(const Location& location, const Preprocessing& like,
                                           Targets targets) {
  TALLY_TRY(auto dataset, open_unscaled(location, like, targets));
  if (dataset->shape().target_type != DataType::kFloat32) return dataset;
  return scale_targets(std::move(dataset), like.target_scale);
}

Result<Location> locate_like(const std::string& name_or_path, const std::filesystem::path& cache,
                             const Preprocessing& like) {
  if (std::holds_alternative<KeyedEncoding>(like.encoding))
    return locate_keyed(name_or_path, cache);
  return locate_among(name_or_path, cache, taken_by(like));
}

Result<std::unique_ptr<Dataset>> open_images_like(std::vector<std::filesystem::path> files,
                                                  const Preprocessing& like) {
  const auto* const image = std::get_if<ImageEncoding>(&like.encoding);
  if (image == nullptr)
    return invalid("{} is an image, and the model takes {}", files.front().string(),
                   taken_by(like));
  return open_image_files(std::move(files), image_size_of(like), image->scale, like.classes);
}

}  // namespace tally::data
