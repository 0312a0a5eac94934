#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/image.h"

namespace tally::data {

// Photographs in folders, one folder a class: NAME/daisy/1.jpg. JPEG and PNG, known by what they
// begin with; listed are files that end in .jpg, .jpeg or .png. Others are passed over, as are
// names that begin with a dot.

struct ImageFolderOptions {
  // Wanted channels, height and width; none: those of the first image.
  std::optional<ImageSize> image;
  // A random part of 1/4 to all of the image, of sides up to 4:3, mirrored half of the time;
  // otherwise the middle.
  bool augment = false;
  // By the usual mean and deviation of photographs (ImageNet's); otherwise from 0 to 1.
  bool normalise = true;
  // What label a class has; empty: the folders in the order of their names.
  std::vector<std::string> classes;
};

// Inputs float32 {channels, height, width}, targets int64 labels. The list is read now, images when
// they are wanted: kCorrupt then. kInvalid if a class folder has no image; kCorrupt if there is one
// that `classes` does not have.
Result<std::unique_ptr<Dataset>> open_image_folder(const std::filesystem::path& folder,
                                                   const ImageFolderOptions& options);

// Names of the class folders in order. kSystem if the folder cannot be read.
Result<std::vector<std::string>> class_folders(const std::filesystem::path& folder);

// A folder of class folders with images; or of the folders train and test (or val, valid,
// validation) of such.
struct ImageFolders {
  std::filesystem::path train;
  std::optional<std::filesystem::path> test;
};
// Nothing if it is neither.
std::optional<ImageFolders> find_image_folders(const std::filesystem::path& folder);

// A random box of an image for results with the proportions of `wanted`.
Box random_box(const ImageSize& image, const ImageSize& wanted, Rng& rng);

}  // namespace tally::data
