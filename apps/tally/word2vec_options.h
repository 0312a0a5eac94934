#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recipes/word2vec/remote_rows.h"
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

// Returns the files of the text. kInvalid if the data is no text.
Result<std::vector<std::filesystem::path>> text_files(const std::string& data);

// Connects to the parameter servers that hold the rows: those of --directory, or those that the
// launcher started with the secret of the job. Null unless the plan has home=server. `joined` are
// the options that `job` was joined with. Called by all ranks.
Result<std::unique_ptr<word2vec::RowService>> rows_of_servers(const Word2vecOptions& options,
                                                              const Job& job,
                                                              const JobOptions& joined);

// One rank of `tally train word2vec`: joins the job of its launcher and trains; rank 0 shows the
// progress and writes the vectors. Returns the exit code. `options` have passed complete().
int run_word2vec_worker(const Word2vecOptions& options);

}  // namespace tally::app
