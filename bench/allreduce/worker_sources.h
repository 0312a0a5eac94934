#pragma once

namespace tally::bench {

// The text of mpi_worker.c and gloo_worker.py, so that the program needs no files beside it.
extern const char* const kMpiWorkerSource;
extern const char* const kGlooWorkerSource;

}  // namespace tally::bench
