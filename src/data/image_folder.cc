#include "data/image_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/errors.h"
#include "data/image_codecs.h"
#include "data/input_file.h"
#include "data/preprocessing.h"

namespace tally::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 28;

bool is_hidden(const fs::path& path) { return path.filename().string().rfind('.', 0) == 0; }

bool is_image_name(const fs::path& path) { return !is_hidden(path) && is_image_file(path); }

Result<std::vector<std::string>> names_in(const fs::path& folder, bool folders) {
  std::error_code failure;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::error_code ignored;
    const bool wanted = folders ? entry->is_directory(ignored) && !is_hidden(entry->path())
                                : entry->is_regular_file(ignored) && is_image_name(entry->path());
    if (wanted) names.push_back(entry->path().filename().string());
  }
  if (failure) return system_failure("cannot read {}: {}", folder.string(), failure.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool has_class_folders(const fs::path& folder) {
  const auto names = names_in(folder, true);
  if (!names.has_value()) return false;
  return std::any_of(names->begin(), names->end(), [&folder](const std::string& name) {
    const auto images = names_in(folder / name, false);
    return images.has_value() && !images->empty();
  });
}

Result<ImageSize> size_of_image(std::span<const std::byte> bytes, const fs::path& path) {
  if (is_jpeg(bytes)) return jpeg_size(bytes, path.string());
  if (is_png(bytes)) return png_size(bytes, path.string());
  return corrupt(path.string(), 0, "a JPEG or PNG image", "another beginning");
}

// The largest JPEG reduction that still leaves at least one pixel per output pixel when `box`
// becomes `wanted`.
int reduction_for(const Box& box, const ImageSize& wanted) {
  int reduction = 8;
  while (reduction > 1 && (box.width < double(wanted.width) * reduction ||
                           box.height < double(wanted.height) * reduction))
    reduction /= 2;
  return reduction;
}

// Mean and deviation of ImageNet.
PixelScale photograph_scale() { return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}; }

// Reads an image as float32 pixels of the wanted size: its centre, or a random part if there is a
// random source.
Result<void> read_image(const fs::path& path, const ImageSize& wanted, const PixelScale& scale,
                        Rng* augment, std::span<std::byte> out) {
  TALLY_TRY(const Bytes bytes, read_file(path, {.max_bytes = kMaxImageBytes}));
  TALLY_TRY(const ImageSize stored, size_of_image(bytes, path));
  const bool flip = augment != nullptr && augment->below(2) == 1;
  Box box = augment != nullptr ? random_box(stored, wanted, *augment) : centre_box(stored, wanted);
  TALLY_TRY(const Image image, is_jpeg(bytes)
                                   ? decode_jpeg(bytes, path.string(), reduction_for(box, wanted))
                                   : decode_png(bytes, path.string()));
  const double across = double(image.size.width) / stored.width;
  const double down = double(image.size.height) / stored.height;
  box = {box.left * across, box.top * down, box.width * across, box.height * down};
  resample(view_of(image), box, wanted, scale, flip,
           {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
  return {};
}

// Images without targets.
class ImageFiles final : public Dataset {
 public:
  ImageFiles(std::vector<fs::path> files, const ImageSize& wanted, PixelScale scale,
             std::vector<std::string> classes)
      : files_(std::move(files)),
        wanted_(wanted),
        scale_(std::move(scale)),
        classes_(std::move(classes)) {
    shape_.input = {wanted.channels, wanted.height, wanted.width};
  }

  std::uint64_t size() const override { return files_.size(); }
  const SampleShape& shape() const override { return shape_; }
  std::vector<std::string> classes() const override { return classes_; }
  Preprocessing preprocessing() const override { return {shape_, classes_, ImageEncoding{scale_}}; }
  Result<void> read(std::uint64_t index, Rng& /*augment*/, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    TALLY_CHECK(index < size() && input.size() == input_bytes(shape_));
    std::memset(target.data(), 0, target.size());
    return read_image(files_[index], wanted_, scale_, nullptr, input);
  }

 private:
  std::vector<fs::path> files_;
  ImageSize wanted_;
  PixelScale scale_;
  std::vector<std::string> classes_;
  SampleShape shape_;
};

// Samples of large photographs would fill the memory: 3 x 8192 x 8192 values are 768 MiB.
ImageSize reduced(const ImageSize& size) {
  const int longest = std::max(size.height, size.width);
  if (longest <= kMaxDefaultSide) return size;
  const auto side = [longest](int length) {
    return std::max(1, static_cast<int>(std::int64_t{length} * kMaxDefaultSide / longest));
  };
  return {size.channels, side(size.height), side(size.width)};
}

struct Listed {
  std::string name;  // file name inside its class folder
  std::int64_t label = 0;
};

class ImageFolder final : public Dataset {
 public:
  ImageFolder(fs::path folder, std::vector<std::string> classes, std::vector<Listed> files,
              const ImageSize& wanted, const ImageFolderOptions& options)
      : folder_(std::move(folder)),
        classes_(std::move(classes)),
        files_(std::move(files)),
        wanted_(wanted),
        augment_(options.augment) {
    scale_ = options.scale       ? *options.scale
             : options.normalise ? fit_scale(photograph_scale(), wanted.channels)
                                 : plain_scale(wanted.channels);
    shape_.input = {wanted.channels, wanted.height, wanted.width};
  }

  std::uint64_t size() const override { return files_.size(); }
  const SampleShape& shape() const override { return shape_; }
  std::vector<std::string> classes() const override { return classes_; }
  Preprocessing preprocessing() const override { return {shape_, classes_, ImageEncoding{scale_}}; }

  Result<void> read(std::uint64_t index, Rng& augment, std::span<std::byte> input,
                    std::span<std::byte> target) const override {
    TALLY_CHECK(index < size() && input.size() == input_bytes(shape_) &&
                target.size() == sizeof(std::int64_t));
    const Listed& file = files_[index];
    const fs::path path = folder_ / classes_[static_cast<std::size_t>(file.label)] / file.name;
    TALLY_TRY(read_image(path, wanted_, scale_, augment_ ? &augment : nullptr, input));
    std::memcpy(target.data(), &file.label, sizeof file.label);
    return {};
  }

 private:
  fs::path folder_;
  std::vector<std::string> classes_;
  std::vector<Listed> files_;
  ImageSize wanted_;
  bool augment_;
  PixelScale scale_;
  SampleShape shape_;
};

// Lists the images of all classes.
Result<std::vector<Listed>> list_images(const fs::path& folder,
                                        const std::vector<std::string>& names,
                                        const std::vector<std::string>& classes) {
  std::vector<Listed> files;
  std::vector<std::string> empty;
  for (const std::string& name : names) {
    const auto label = std::find(classes.begin(), classes.end(), name) - classes.begin();
    if (label == std::ssize(classes)) {
      return tally::corrupt(
          fmt::format("{}: expected one of the {} classes of the training part, found {}",
                      (folder / name).string(), classes.size(), name));
    }
    TALLY_TRY(std::vector<std::string> images, names_in(folder / name, false));
    if (images.empty()) empty.push_back(name);
    for (std::string& image : images) files.push_back({std::move(image), label});
  }
  if (!empty.empty())
    return invalid("{}: no .jpg, .jpeg or .png in the class folder{} {}", folder.string(),
                   empty.size() == 1 ? "" : "s", fmt::join(empty, ", "));
  return files;
}

}  // namespace

bool is_image_file(const fs::path& path) {
  std::string end = path.extension().string();
  for (char& c : end) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

Result<std::vector<fs::path>> images_in(const fs::path& folder) {
  TALLY_TRY(const std::vector<std::string> names, names_in(folder, false));
  std::vector<fs::path> files;
  for (const std::string& name : names) files.push_back(folder / name);
  return files;
}

Result<std::unique_ptr<Dataset>> open_image_files(std::vector<fs::path> files,
                                                  const ImageSize& wanted, const PixelScale& scale,
                                                  std::vector<std::string> classes) {
  return std::unique_ptr<Dataset>(
      std::make_unique<ImageFiles>(std::move(files), wanted, scale, std::move(classes)));
}

Result<std::vector<std::string>> class_folders(const fs::path& folder) {
  return names_in(folder, true);
}

std::optional<ImageFolders> find_image_folders(const fs::path& folder) {
  if (has_class_folders(folder / "train")) {
    ImageFolders found{.train = folder / "train"};
    for (const char* name : {"test", "val", "valid", "validation"})
      if (!found.test && has_class_folders(folder / name)) found.test = folder / name;
    return found;
  }
  if (has_class_folders(folder)) return ImageFolders{.train = folder};
  return std::nullopt;
}

Box random_box(const ImageSize& image, const ImageSize& wanted, Rng& rng) {
  constexpr double kLeastArea = 0.25;
  constexpr int kTries = 10;
  const double area = double(image.width) * image.height;
  for (int i = 0; i < kTries; ++i) {
    const double part = area * (kLeastArea + (1 - kLeastArea) * rng.uniform());
    const double stretch = std::pow(4.0 / 3.0, 2 * rng.uniform() - 1);
    const double ratio = stretch * wanted.width / wanted.height;
    const double width = std::sqrt(part * ratio);
    const double height = std::sqrt(part / ratio);
    if (width > image.width || height > image.height) continue;
    return {rng.uniform() * (image.width - width), rng.uniform() * (image.height - height), width,
            height};
  }
  return centre_box(image, wanted);
}

Result<std::unique_ptr<Dataset>> open_image_folder(const fs::path& folder,
                                                   const ImageFolderOptions& options) {
  TALLY_TRY(const std::vector<std::string> names, class_folders(folder));
  const std::vector<std::string>& classes = options.classes.empty() ? names : options.classes;
  TALLY_TRY(std::vector<Listed> files, list_images(folder, names, classes));
  if (files.empty())
    return invalid(fmt::format("{}: no class folders with images", folder.string()));
  ImageSize wanted;
  if (options.image) {
    wanted = *options.image;
  } else {
    const fs::path first =
        folder / classes[static_cast<std::size_t>(files[0].label)] / files[0].name;
    TALLY_TRY(const Bytes bytes, read_file(first, {.max_bytes = kMaxImageBytes}));
    TALLY_TRY(const ImageSize stored, size_of_image(bytes, first));
    wanted = reduced(stored);
  }
  return std::unique_ptr<Dataset>(
      std::make_unique<ImageFolder>(folder, classes, std::move(files), wanted, options));
}

}  // namespace tally::data
