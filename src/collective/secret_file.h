#pragma once
#include <sys/types.h>

#include "tally/error.h"
#include "tally/job.h"

namespace tally::collective {

// The secret in a file: 32 bytes, raw or in hexadecimal. kInvalid names TALLY_SECRET_FILE and what
// is wrong with it.
Result<Secret> read_secret(const char* path);

// Whether a file of this mode and owner is private to the user `me`. Root may lend a file to a
// group, as Kubernetes does for a program that does not run as root.
bool is_private(mode_t mode, uid_t owner, uid_t me);

}  // namespace tally::collective
