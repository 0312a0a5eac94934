// A failure cannot be overlooked: a Result that nobody looks at does not compile.
// Error: ignoring return.*nodiscard
#include "tally/error.h"

tally::Result<void> send();

bool send_twice() {
#ifdef TALLY_MISTAKE
  send();
#endif
  return send().has_value();
}
