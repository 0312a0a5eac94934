// Untrusted files of the MNIST family: no header makes the reader read beyond the file, and an
// accepted file has as many pixels and labels as it says. Also as gzip.
#include <span>

#include "base/check.h"
#include "data/input_file.h"
#include "data/pixel_files.h"
#include "fuzz_entry.h"

namespace {

std::vector<std::uint8_t> joined(const std::vector<std::uint8_t>& images,
                                 const std::vector<std::uint8_t>& labels) {
  std::vector<std::uint8_t> input;
  input.reserve(1 + images.size() + labels.size());
  input.push_back(static_cast<std::uint8_t>(images.size()));
  input.insert(input.end(), images.begin(), images.end());
  input.insert(input.end(), labels.begin(), labels.end());
  return input;
}

}  // namespace

// The first byte says how many belong to the images; the rest are labels.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally::data;
  if (size == 0) return 0;
  const std::span<const std::byte> input = std::as_bytes(std::span(data + 1, size - 1));
  const std::size_t cut = std::min<std::size_t>(data[0], input.size());
  const auto samples =
      parse_idx({input.subspan(0, cut), "images"}, {input.subspan(cut), "labels"}, 10);
  if (samples.has_value()) {
    const ImageSize& image = samples->size;
    TALLY_CHECK(samples->pixels.size() == samples->labels.size() *
                                              static_cast<std::size_t>(image.height) *
                                              static_cast<std::size_t>(image.width));
    for (const std::uint8_t label : samples->labels) TALLY_CHECK(label < 10);
  } else {
    TALLY_CHECK(samples.error().code == tally::ErrorCode::kCorrupt);
  }
  if (const auto bytes = unpack_gzip(input, "packed", {.max_bytes = 1 << 20}); bytes.has_value())
    TALLY_CHECK(bytes->size() <= 1 << 20);
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
  return {{},
          joined({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6},
                 {0, 0, 8, 1, 0, 0, 0, 2, 3, 4}),
          joined({0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 16, 0, 0, 0, 16, 0},
                 {0, 0, 8, 1, 255, 255, 255, 255}),
          // gzip of "a"
          {0, 0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 0x4B, 4, 0, 0x43, 0xBE, 0xB7, 0xE8, 1, 0, 0, 0}};
}
