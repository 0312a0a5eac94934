#include "data/dataset.h"

#include "data/preprocessing.h"

namespace tally::data {

Preprocessing Dataset::preprocessing() const {
  return {.shape = shape(), .classes = classes(), .encoding = {}};
}

}  // namespace tally::data
