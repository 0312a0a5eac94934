// TALLY_TRY passes an Error on, so the function around it must be able to return one.
// Error: (return-statement with a value, in function returning 'void'|void function .* return)
#include "tally/error.h"

tally::Result<void> send();

#ifdef TALLY_MISTAKE
void send_all() { TALLY_TRY(send()); }
#else
tally::Result<void> send_all() {
  TALLY_TRY(send());
  return {};
}
#endif
