// Only types that have a DataType can be reduced.
// Error: (static assertion failed|static_assert failed).*no DataType for this C\+\+ type
#include "tally/types.h"

#ifdef TALLY_MISTAKE
struct Complex {
  float real;
  float imaginary;
};
constexpr tally::DataType kType = tally::kDataTypeOf<Complex>;
#else
constexpr tally::DataType kType = tally::kDataTypeOf<float>;
#endif
static_assert(tally::size_of(kType) == 4);
