// A caller cannot overlook an error: code that drops a Result does not compile.
// Error: ignoring return.*nodiscard
#include "tally/error.h"

tally::Result<void> send();

bool send_twice() {
#ifdef TALLY_MISTAKE
  send();
#endif
  return send().has_value();
}
