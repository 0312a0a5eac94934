#include "policy/rules.h"

namespace tally::policy {

bool Rules::has_rounds() const {
  return update != plan::Update::kAsp && update != plan::Update::kSsp;
}

}  // namespace tally::policy
