#pragma once
#include "apps/tally/word2vec_options.h"

namespace tally::app {

// One rank of `tally train word2vec`: joins the job that started it, trains, and as rank 0 shows
// how far it is and writes what comes out. Returns the exit code. `options` are complete().
int run_word2vec_worker(const Word2vecOptions& options);

}  // namespace tally::app
