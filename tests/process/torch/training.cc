#include "process/torch/training.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/rng.h"
#include "process/processes.h"

namespace tally::process {
namespace {

namespace fs = std::filesystem;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

}  // namespace

TrainingFolder::TrainingFolder() { fs::create_directory(file("tmp")); }

std::string TrainingFolder::table(int rows) const {
  std::string text = "x,y,side\n";
  Rng rng(3);
  for (int i = 0; i < rows; ++i) {
    const double x = rng.uniform() * 2 - 1;
    const double y = rng.uniform() * 2 - 1;
    text += fmt::format("{:.4f},{:.4f},{}\n", x, y, x + 2 * y > 0.1 ? "over" : "under");
  }
  write_file(file("table.csv"), text);
  return file("table.csv");
}

std::string TrainingFolder::text() const {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the quick brown fox jumps over the lazy dog. ";
  write_file(file("text.txt"), text);
  return file("text.txt");
}

std::string TrainingFolder::images(int count) const {
  const std::string folder = file("images");
  fs::create_directory(folder);
  for (const char* part : {"train", "t10k"}) {
    std::string pixels = big_endian(0x803) + big_endian(static_cast<std::uint32_t>(count)) +
                         big_endian(28) + big_endian(28);
    std::string labels = big_endian(0x801) + big_endian(static_cast<std::uint32_t>(count));
    Rng rng(static_cast<std::uint64_t>(part[1]));
    for (int i = 0; i < count; ++i) {
      const auto label = static_cast<int>(rng.below(2));
      labels += static_cast<char>(label);
      for (int row = 0; row < 28; ++row)
        for (int column = 0; column < 28; ++column)
          pixels += static_cast<char>(rng.below(100) + ((row < 14) == (label == 1) ? 100 : 0));
    }
    write_file(fmt::format("{}/{}-images-idx3-ubyte", folder, part), pixels);
    write_file(fmt::format("{}/{}-labels-idx1-ubyte", folder, part), labels);
  }
  return folder;
}

Child TrainingFolder::train(const std::vector<std::string>& words) const {
  std::vector<std::string> command{TALLY_PROGRAM, "train"};
  command.insert(command.end(), words.begin(), words.end());
  return Child({.command = command,
                .variables = {{"TMPDIR", file("tmp")}, {"XDG_CACHE_HOME", file("cache")}}});
}

bool TrainingFolder::left_nothing_behind() const { return fs::is_empty(file("tmp")); }

nlohmann::json WithTrainings::result_of(std::vector<std::string> words) {
  const std::string json = folder_.file("out.jsonl");
  fs::remove(json);
  words.insert(words.end(), {"--json", json});
  Child tally = folder_.train(words);
  EXPECT_TRUE(tally.exits(0, kTrainingTime)) << tally.transcript();
  EXPECT_TRUE(folder_.left_nothing_behind());
  output_ = tally.transcript();
  return nlohmann::json::parse(contents_of(json), nullptr, false);
}

pid_t worker_of(pid_t tally, Rank rank) {
  // The host agent is between the launcher and its workers.
  for (const pid_t pid : all_processes())
    if (parent_of(parent_of(pid)) == tally && variable_of(pid, "RANK") == std::to_string(rank))
      return pid;
  return -1;
}

}  // namespace tally::process
