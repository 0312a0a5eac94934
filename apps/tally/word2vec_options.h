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

// Options of `tally train word2vec`.
struct Word2vecOptions {
  std::string data = "imdb";
  int workers = 0;  // 0: one for each core
  int servers = 0;  // server processes for the rows, with home=server; 0: one
  std::string
      directory;  // HOST:PORT of running servers; empty: servers are started with the workers
  std::string server_secret;  // secret file of these servers; empty: they have no secret
  std::optional<Secret> directory_secret;  // read by complete()
  word2vec::Settings settings;
  std::string words = "lower";
  std::string plan;
  std::string output;
  std::string json;
  bool quiet = false;
  int live_columns = 0;  // columns of the launcher's terminal; 0: no terminal
};

void add_word2vec_options(Command& command, Word2vecOptions& options);

// Converts texts to settings, and checks what can be checked without reading the data. kInvalid or
// kSystem with the reason.
Result<void> complete(Word2vecOptions& options);

// Returns the files of the text. kInvalid if the data is no text.
Result<std::vector<std::filesystem::path>> text_files(const std::string& data);

}  // namespace tally::app
