#pragma once
#include <memory>

#include "apps/tally/word2vec_options.h"
#include "recipes/word2vec/remote_rows.h"
#include "tally/job.h"

namespace tally::app {

// The rows as parameter servers have them, those of --directory or of who has started us, whose
// secret is the job's; null unless the plan says home=server. `joined` is what `job` was joined by.
// Called by all ranks.
Result<std::unique_ptr<word2vec::RowService>> rows_of_servers(const Word2vecOptions& options,
                                                              const Job& job,
                                                              const JobOptions& joined);

}  // namespace tally::app
