#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/image.h"

namespace tally::data {

// Photographs with one folder per class: NAME/daisy/1.jpg. Lists files that end in .jpg, .jpeg or
// .png, and detects JPEG and PNG by the first bytes. Other files and names that begin with a dot
// are ignored.

inline constexpr int kMaxDefaultSide = 1024;

struct ImageFolderOptions {
  // Wanted channels, height and width; unset: those of the first image, in proportion reduced to
  // kMaxDefaultSide.
  std::optional<ImageSize> image;
  // A random crop of 1/4 to all of the area with a random aspect ratio (up to 4:3 off the wanted
  // one), mirrored with probability 1/2; otherwise the centre.
  bool augment = false;
  // Normalise by ImageNet's mean and deviation; otherwise values from 0 to 1.
  bool normalise = true;
  // Class names by label; empty: the folders in alphabetical order.
  std::vector<std::string> classes = {};
  // Used instead of `normalise` if set.
  std::optional<PixelScale> scale = {};
};

// Inputs float32 {channels, height, width}, targets int64 labels. Lists the files now, and reads
// images on demand; Dataset::read() returns kCorrupt for a damaged image. kInvalid if a class
// folder has no image; kCorrupt if a folder is not in `classes`.
Result<std::unique_ptr<Dataset>> open_image_folder(const std::filesystem::path& folder,
                                                   const ImageFolderOptions& options);

// Opens single images of any folders, with the centre of each resized to `wanted`. The targets are
// 0; `classes` are only returned. Reads images on demand.
Result<std::unique_ptr<Dataset>> open_image_files(std::vector<std::filesystem::path> files,
                                                  const ImageSize& wanted, const PixelScale& scale,
                                                  std::vector<std::string> classes);

// The files of a folder that are images by their name, in alphabetical order; those of its folders
// are not listed.
Result<std::vector<std::filesystem::path>> images_in(const std::filesystem::path& folder);

// True for the name of a JPEG or PNG file.
bool is_image_file(const std::filesystem::path& path);

// Class folders in alphabetical order. kSystem if the folder cannot be read.
Result<std::vector<std::string>> class_folders(const std::filesystem::path& folder);

// A folder of class folders; or a folder with train and test (or val, valid, validation), each of
// class folders.
struct ImageFolders {
  std::filesystem::path train;
  std::optional<std::filesystem::path> test;
};
// Returns nullopt if the folder is neither.
std::optional<ImageFolders> find_image_folders(const std::filesystem::path& folder);

// A random box for a crop to the size of `wanted`; see ImageFolderOptions::augment.
Box random_box(const ImageSize& image, const ImageSize& wanted, Rng& rng);

}  // namespace tally::data
