// mpi_beside LIBRARY: a rank that joins a job of ours and then begins and ends an MPI of its own,
// in one program. The library is loaded by name, so that one program serves all MPIs.
#include <dlfcn.h>

#include <cstdio>
#include <span>
#include <vector>

#include "tally/job.h"

namespace {

bool begin_and_end_mpi(const char* library_name) {
  void* const library = dlopen(library_name, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  const auto init = reinterpret_cast<int (*)(int*, char***)>(dlsym(library, "MPI_Init"));
  const auto finalize = reinterpret_cast<int (*)()>(dlsym(library, "MPI_Finalize"));
  return init != nullptr && finalize != nullptr && init(nullptr, nullptr) == 0 && finalize() == 0;
}

// A job is joined and left; an MPI is begun and ended after that.
tally::Result<bool> run(const char* library_name) {
  {
    TALLY_TRY(const auto job, tally::Job::join());
    std::vector<float> one = {1};
    TALLY_TRY(job->world().allreduce(std::span(one)));
    if (one[0] != static_cast<float>(job->size())) return false;
  }
  return begin_and_end_mpi(library_name);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const auto done = run(arguments[1]);
  if (!done) std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  if (!done || !*done) return 1;
  std::printf("both\n");
  return 0;
}
