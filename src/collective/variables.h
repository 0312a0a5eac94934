#pragma once
#include <sys/types.h>

#include <functional>
#include <string>

#include "base/errors.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::collective {

// A source of environment variables; returns nullptr for a variable that is not set.
using Variables = std::function<const char*(const char*)>;

// The variable as a number in [lowest, highest]; `fallback` if it is not set. kInvalid names it.
Result<int> number(const Variables& variable, const char* name, int lowest, int highest,
                   int fallback);

// The variable, or an empty text.
std::string text_of(const Variables& variable, const char* name);

// The secret in a file: 32 bytes, raw or in hexadecimal. kInvalid names TALLY_SECRET_FILE and what
// is wrong with it.
Result<Secret> read_secret(const char* path);

// Whether a file of this mode and owner is private to the user `me`. Root may lend a file to a
// group, as Kubernetes does for a program that does not run as root.
bool is_private(mode_t mode, uid_t owner, uid_t me);

}  // namespace tally::collective
