#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "apps/tally/commands.h"
#include "apps/tally/launch/launcher.h"
#include "process/child_process.h"
#include "process/exec.h"

namespace tally::app {
namespace {

// OpenBLAS starts its threads when it is loaded, before main(), so the variable is set before exec.
// tally-train as a launcher must have no such threads, so that signals reach its main thread; it
// sets the thread count of its workers itself. A process that is already a rank keeps its own.
void start_without_blas_threads() {
  const auto joins = launch::is_rank();
  if (joins && !*joins) ::setenv("OPENBLAS_NUM_THREADS", "1", 0);
}

// Whether `tally eval WORD` needs no libtorch.
bool evaluates_vectors(const std::string& word) {
  return word == "analogy" || word == "similarity" || word == "--help" || word == "-h";
}

}  // namespace

std::optional<std::vector<std::string>> torch_program_words(const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  if (words[0] == "train" && words.size() > 1 && words[1] == "word2vec") return std::nullopt;
  for (const char* const command : {"train", "predict", "generate", "export"})
    if (words[0] == command) return words;
  if (words[0] == "eval" && words.size() > 1 && !evaluates_vectors(words[1])) return words;
  if (words.size() < 2 || words[0] != "bench") return std::nullopt;
  if (words[1] != "train" && words[1] != "compress") return std::nullopt;
  std::vector<std::string> bench = {words[1] == "train" ? "bench" : "bench-compress"};
  bench.insert(bench.end(), words.begin() + 2, words.end());
  return bench;
}

bool lists_recipes(const std::vector<std::string>& words) {
  if (words.empty() || words[0] != "train") return false;
  return words.size() == 1 || words[1] == "--list" || words[1] == "--help" || words[1] == "-h";
}

int become_torch_program(std::vector<std::string> words) {
  const bool lists = lists_recipes(words);
  if (lists) {
    fmt::print("tally train word2vec [OPTIONS] trains {}\n", kWord2vecDescription);
    std::fflush(stdout);
  }
  const bool benches = words.front().starts_with("bench");
  const char* const name = benches ? "tally-bench-train" : "tally-train";
  const std::string program = process::program_beside(name);
  if (words.front() == "train") start_without_blas_threads();
  words.insert(words.begin(), program);
  const std::vector<char*> arguments = process::pointers_to(words);
  ::execv(program.c_str(), arguments.data());
  if (errno == ENOENT)
    fmt::print(stderr, "{} was not built: install libtorch-dev and build all targets{}\n", name,
               lists ? " for other recipes" : "");
  else
    fmt::print(stderr, "cannot run {}: {}\n", program, strerror(errno));
  return kWrongUsage;
}

}  // namespace tally::app
