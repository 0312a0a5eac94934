#include "exchange/state_names.h"

#include "optimizer/update_rule.h"

namespace tally::exchange {

bool has_master(const ParameterInfo& parameter) {
  return parameter.type == DataType::kFloat16 || parameter.type == DataType::kBFloat16;
}

std::vector<std::string> state_names_of(const ParameterInfo& parameter,
                                        const OptimizerSpec& optimizer) {
  std::vector<std::string> names = optimizer::state_names(optimizer);
  if (has_master(parameter)) names.emplace_back("master");
  return names;
}

}  // namespace tally::exchange
