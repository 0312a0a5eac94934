// Samples per second of a loader whose caller does nothing else, by kind of data and number of
// threads. The data is generated, with the sizes of fashion-mnist, CIFAR-10 and a folder of
// photographs.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <benchmark/benchmark.h>

#include "base/rng.h"
#include "data/image_folder.h"
#include "data/pixels.h"
#include "data/test_images.h"
#include "train/loader.h"

namespace tally::train {
namespace {

data::PixelSamples noise(const data::ImageSize& size, std::size_t count) {
  data::PixelSamples samples{
      .size = size, .pixels = {}, .labels = std::vector<std::uint8_t>(count, 3)};
  samples.pixels.resize(count * static_cast<std::size_t>(size.channels * size.height * size.width));
  Rng rng(1);
  for (std::byte& pixel : samples.pixels) pixel = static_cast<std::byte>(rng.next());
  return samples;
}

void run(benchmark::State& state, const data::Dataset& dataset, std::uint64_t batch) {
  Loader loader(dataset, data::Order({.size = dataset.size(), .batch = batch}),
                {.threads = static_cast<int>(state.range(0))});
  std::int64_t samples = 0;
  for (auto _ : state) {
    const auto next = loader.next();
    if (!next.has_value()) {
      state.SkipWithError(next.error().message.c_str());
      return;
    }
    benchmark::DoNotOptimize(next->input.data());
    samples += static_cast<std::int64_t>(next->samples);
  }
  state.SetItemsProcessed(samples);
}

void fashion_mnist(benchmark::State& state) {
  const auto dataset =
      data::make_pixel_dataset(noise({1, 28, 28}, 60000), std::vector<std::string>(10),
                               {.scale = data::PixelScale{{0.286F}, {0.353F}}});
  run(state, *dataset, 64);
}

void cifar(benchmark::State& state) {
  const auto dataset = data::make_pixel_dataset(
      noise({3, 32, 32}, 50000), std::vector<std::string>(10),
      {.scale = data::PixelScale{{0.5F, 0.5F, 0.5F}, {0.25F, 0.25F, 0.25F}}});
  run(state, *dataset, 64);
}

void cifar_augmented(benchmark::State& state) {
  const auto dataset = data::make_pixel_dataset(
      noise({3, 32, 32}, 50000), std::vector<std::string>(10),
      {.scale = data::PixelScale{{0.5F, 0.5F, 0.5F}, {0.25F, 0.25F, 0.25F}},
       .shift = 4,
       .flip = true});
  run(state, *dataset, 64);
}

// 64 images of 500 x 375 with some detail, resized to 224 x 224.
void jpeg_folder(benchmark::State& state) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "tally_loader_bench.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) std::abort();
  Rng rng(2);
  for (int i = 0; i < 64; ++i) {
    data::Image image = data::gradient_image({3, 375, 500});
    for (std::uint8_t& pixel : image.pixels)
      pixel = static_cast<std::uint8_t>(pixel / 2 + rng.below(40));
    const fs::path folder = fs::path(pattern) / (i % 2 == 0 ? "a" : "b");
    fs::create_directories(folder);
    std::ofstream(folder / (std::to_string(i) + ".jpg"), std::ios::binary) << data::jpeg_of(image);
  }
  {
    const auto dataset = data::open_image_folder(
        pattern, {.image = data::ImageSize{3, 224, 224}, .augment = state.range(1) == 1});
    if (dataset.has_value()) {
      run(state, **dataset, 16);
    } else {
      state.SkipWithError(dataset.error().message.c_str());
    }
  }
  std::error_code ignored;
  fs::remove_all(pattern, ignored);
}

BENCHMARK(fashion_mnist)
    ->ArgName("threads")
    ->Arg(0)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(cifar)
    ->ArgName("threads")
    ->Arg(0)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(cifar_augmented)
    ->ArgName("threads")
    ->Arg(0)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(jpeg_folder)
    ->ArgNames({"threads", "augment"})
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({1, 1})
    ->Args({2, 1})
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace tally::train
