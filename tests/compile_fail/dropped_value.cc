// A Result that carries a value is no different from a Result<void>.
// Error: ignoring return.*nodiscard
#include "tally/error.h"

tally::Result<int> receive();

int receive_second() {
#ifdef TALLY_MISTAKE
  receive();
#else
  static_cast<void>(receive());
#endif
  return receive().has_value() ? 1 : 0;
}
