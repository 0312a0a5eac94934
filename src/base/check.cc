#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tally {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "tally: check failed: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace tally
