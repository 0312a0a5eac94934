#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/tally/command_line.h"
#include "recipes/word2vec/training.h"
#include "recipes/word2vec/vectors.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::app {

// What `tally train word2vec` is told.
struct Word2vecOptions {
  std::string data = "imdb";
  int workers = 0;  // 0: one for each core
  int servers = 0;  // processes that have the rows, with home=server; 0: one, or none are needed
  std::string
      directory;  // of servers that run already; empty: those that are started with the workers
  std::string server_secret;  // file with the secret of the former; empty: they have none
  std::optional<Secret> directory_secret;  // what complete() has read there
  word2vec::Settings settings;
  std::string words = "lower";
  std::string plan;
  std::string output;
  std::string json;
  bool quiet = false;
  int live_columns = 0;  // of the terminal that the launcher has; 0: none
};

void add_word2vec_options(Command& command, Word2vecOptions& options);

// Takes what is given as text into the settings, and checks what can be checked without reading the
// data. kInvalid or kSystem with what is wrong.
Result<void> complete(Word2vecOptions& options);

// The files of the text. kInvalid if it is none.
Result<std::vector<std::filesystem::path>> text_files(const std::string& data);

}  // namespace tally::app
