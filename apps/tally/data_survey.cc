#include "apps/tally/data_survey.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "base/memory_limit.h"
#include "data/image.h"
#include "process/interrupt.h"
#include "train/loader.h"

namespace tally::app {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{4} << 20;
constexpr std::size_t kMostSamples = 256;
constexpr std::size_t kMostClasses = 50;  // listed at most
// An eighth of the memory is for images that are being decoded, each of this size at most.
constexpr std::uint64_t kMemoryShare = 8;
constexpr std::uint64_t kLargestImageBytes = 3 * std::uint64_t{data::kMaxImagePixels};

template <typename T, typename Use>
void each(std::span<const std::byte> bytes, const Use& use) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, &bytes[at], sizeof value);
    use(value);
  }
}

void note_targets(std::span<const std::byte> targets, PartSurvey& part) {
  if (part.shape.target_type == DataType::kInt64) {
    each<std::int64_t>(targets, [&part](std::int64_t label) {
      const auto index = static_cast<std::size_t>(label);
      if (part.histogram.size() <= index) part.histogram.resize(index + 1);
      ++part.histogram[index];
    });
    return;
  }
  each<float>(targets, [&part](float value) {
    const bool first = part.samples == 0;
    part.least = first ? value : std::min<double>(part.least, value);
    part.most = first ? value : std::max<double>(part.most, value);
    ++part.samples;
    part.mean += (value - part.mean) / static_cast<double>(part.samples);
  });
}

std::string shape_text(const std::vector<std::int64_t>& shape, DataType type) {
  if (shape.empty()) return std::string(to_string(type));
  return fmt::format("{} {}", to_string(type), fmt::join(shape, " x "));
}

std::string target_text(const PartSurvey& part) {
  if (part.shape.target_type == DataType::kInt64)
    return part.shape.target.empty() ? "label"
                                     : shape_text(part.shape.target, part.shape.target_type);
  return fmt::format("{} from {:.6g} to {:.6g}, mean {:.6g}", to_string(part.shape.target_type),
                     part.least, part.most, part.mean);
}

std::uint64_t count_of(const PartSurvey& part, std::size_t label) {
  return label < part.histogram.size() ? part.histogram[label] : 0;
}

// Returns a class name with control characters replaced.
std::string printable_name(const std::string& name) {
  std::string result;
  for (const char c : name) result += c >= 0 && c < ' ' ? '?' : c;
  return result;
}

std::string histogram_table(const std::vector<PartSurvey>& parts) {
  const std::vector<std::string>& classes = parts.front().classes;
  std::size_t width = 5;
  for (const std::string& name : classes) width = std::max(width, name.size());
  std::string text = fmt::format("  label  {:<{}}", "class", width);
  for (const PartSurvey& part : parts) text += fmt::format("  {:>10}", part.name);
  text += "\n";
  for (std::size_t label = 0; label < std::min(classes.size(), kMostClasses); ++label) {
    text += fmt::format("  {:>5}  {:<{}}", label, printable_name(classes[label]), width);
    for (const PartSurvey& part : parts) text += fmt::format("  {:>10}", count_of(part, label));
    text += "\n";
  }
  if (classes.size() > kMostClasses)
    text += fmt::format("  and {} more classes\n", classes.size() - kMostClasses);
  return text;
}

// The names of the classes with `count` samples.
std::vector<std::string> classes_with(const PartSurvey& part, std::uint64_t count) {
  std::vector<std::string> names;
  for (std::size_t label = 0; label < part.classes.size(); ++label)
    if (count_of(part, label) == count) names.push_back(printable_name(part.classes[label]));
  return names;
}

// "class x", "classes x, y, ...".
std::string listed(std::vector<std::string> names) {
  const std::string_view word = names.size() == 1 ? "class" : "classes";
  if (names.size() > kMostClasses) {
    names.resize(kMostClasses);
    names.emplace_back("...");
  }
  return fmt::format("{} {}", word, fmt::join(names, ", "));
}

std::string warning_about(const PartSurvey& part) {
  const std::vector<std::string> single = classes_with(part, 1);
  // In a tiny part most classes have one sample.
  if (single.empty() || single.size() > part.classes.size() / 2) return "";
  return fmt::format("  {:<9} one sample only of {}: is that a typing error?\n", "warning",
                     listed(single));
}

}  // namespace

Result<PartSurvey> survey(const data::Dataset& dataset, const std::string& name) {
  PartSurvey part{.name = name, .shape = dataset.shape(), .classes = dataset.classes()};
  if (dataset.size() == 0) return part;
  // Large images are read one by one, because the loader holds several batches.
  const std::uint64_t batch_samples = std::clamp<std::size_t>(
      kBatchBytes / std::max<std::size_t>(data::input_bytes(dataset.shape()), 1), 1, kMostSamples);
  const int threads = static_cast<int>(
      std::clamp<std::uint64_t>(usable_memory_bytes() / kMemoryShare / kLargestImageBytes, 1,
                                static_cast<std::uint64_t>(usable_cores())));
  train::Loader loader(
      dataset,
      data::Order(
          {.strategy = data::Strategy::kStream, .size = dataset.size(), .batch = batch_samples}),
      {.threads = threads});
  for (bool last = false; !last;) {
    if (process::interrupted() != 0) return system_failure("interrupted");
    TALLY_TRY(const train::Batch batch, loader.next());
    note_targets(batch.target, part);
    last = batch.last_of_epoch;
  }
  part.samples = dataset.size();
  return part;
}

Result<void> check_classes(data::Kind kind, const PartSurvey& part) {
  if (kind == data::Kind::kText || part.classes.empty()) return {};
  if (part.classes.size() == 1)
    return invalid("all samples have the class {}, expected two classes or more",
                   printable_name(part.classes[0]));
  const std::vector<std::string> empty = classes_with(part, 0);
  if (empty.empty()) return {};
  return invalid("no {} samples of {}", part.name == "all" ? "training" : part.name, listed(empty));
}

std::string describe(data::Kind kind, const std::vector<PartSurvey>& parts) {
  std::string text;
  for (const PartSurvey& part : parts) {
    text +=
        fmt::format("  {:<9} {} {}{}, input {}, target {}\n", part.name, part.samples,
                    kind == data::Kind::kText ? "window" : "sample", part.samples == 1 ? "" : "s",
                    shape_text(part.shape.input, part.shape.input_type), target_text(part));
  }
  const PartSurvey& first = parts.front();
  if (first.classes.empty()) return text;
  if (kind != data::Kind::kText)
    return text + fmt::format("  {:<9} {}\n", "classes", first.classes.size()) +
           histogram_table(parts) + warning_about(first);
  const auto used = std::count_if(first.histogram.begin(), first.histogram.end(),
                                  [](std::uint64_t count) { return count > 0; });
  return text + fmt::format("  {:<9} {}, {} of them in use here\n", "alphabet",
                            counted(first.classes.size(), "symbol"), used);
}

}  // namespace tally::app
