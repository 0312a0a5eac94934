#include "apps/tally/torch_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "apps/tally/child_process.h"
#include "apps/tally/launch/rank_process.h"

namespace tally::app {
namespace {

constexpr int kWrongUsage = 2;

}  // namespace

std::optional<std::vector<std::string>> torch_program_words(const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  if (words[0] == "train") return words;
  if (words.size() < 2 || words[0] != "bench" || words[1] != "train") return std::nullopt;
  std::vector<std::string> bench = {"bench"};
  bench.insert(bench.end(), words.begin() + 2, words.end());
  return bench;
}

int become_torch_program(std::vector<std::string> words) {
  const std::string program =
      (std::filesystem::path(own_program()).parent_path() / "tally-train").string();
  words.insert(words.begin(), program);
  const std::vector<char*> arguments = launch::pointers_to(words);
  ::execv(program.c_str(), arguments.data());
  if (errno == ENOENT)
    fmt::print(stderr,
               "this tally was built without libtorch: install libtorch-dev and build again\n");
  else
    fmt::print(stderr, "cannot run {}: {}\n", program, strerror(errno));
  return kWrongUsage;
}

}  // namespace tally::app
