#pragma once
#include "apps/tally/word2vec_options.h"

namespace tally::app {

// One rank of `tally train word2vec`: joins the job of its launcher and trains; rank 0 shows the
// progress and writes the vectors. Returns the exit code. `options` have passed complete().
int run_word2vec_worker(const Word2vecOptions& options);

}  // namespace tally::app
