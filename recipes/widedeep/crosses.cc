#include "recipes/widedeep/model.h"

#include <algorithm>
#include <initializer_list>

#include "adapters/torch/key_tensors.h"
#include "base/rng.h"
#include "data/keyed.h"
#include "data/keyed_columns.h"

namespace tally::recipes {
namespace {

using Names = std::vector<std::string>;

// Crosses of known tables. A table has a cross if it has all of its fields.
std::vector<Names> known_crosses() {
  return {// Adult
          {"education", "occupation"},
          {"age", "education", "occupation"},
          {"marital-status", "occupation"},
          {"relationship", "education"},
          {"native-country", "occupation"},
          {"workclass", "occupation"},
          {"sex", "marital-status"},
          // Criteo
          {"C2", "C5"},
          {"C6", "C9"},
          {"C14", "C17"},
          {"I5", "I6"}};
}

}  // namespace

std::vector<Cross> crosses_for(const std::vector<std::string>& fields) {
  std::vector<Cross> crosses;
  for (const Names& names : known_crosses()) {
    Cross cross;
    for (const std::string& name : names) {
      const auto at = std::find(fields.begin(), fields.end(), name);
      if (at != fields.end()) cross.push_back(at - fields.begin());
    }
    if (cross.size() == names.size()) crosses.push_back(std::move(cross));
  }
  // MovieLens: the genres that a user likes. A value slot has the same key in all rows, so it is in
  // no cross.
  const auto user = std::find(fields.begin(), fields.end(), "user");
  const auto movie = std::find(fields.begin(), fields.end(), "movie");
  if (user == fields.end() || movie == fields.end()) return crosses;
  const auto has_value = [&](const std::string& slot) {
    return std::any_of(fields.begin(), fields.end(), [&](const std::string& field) {
      return slot == data::value_field_of(field);
    });
  };
  for (auto slot = fields.begin(); slot != fields.end(); ++slot)
    if (slot != user && slot != movie && !has_value(*slot))
      crosses.push_back({user - fields.begin(), slot - fields.begin()});
  return crosses;
}

at::Tensor crossed_keys(const at::Tensor& keys, const std::vector<Cross>& crosses) {
  if (crosses.empty()) return keys.slice(1, 0, 0);
  std::vector<at::Tensor> result;
  for (const Cross& cross : crosses) {
    // Crosses of the same keys have different keys, because their number is the first state.
    const std::uint64_t first = Rng(result.size()).next();
    at::Tensor key;
    at::Tensor incomplete;
    for (const std::int64_t slot : cross) {
      const at::Tensor column = keys.select(1, slot);
      const at::Tensor empty = column.eq(data::kNoKey);
      incomplete = incomplete.defined() ? at::logical_or(incomplete, empty) : empty;
      key = key.defined()
                ? adapter::mixed(key, column)
                : adapter::next_of(at::bitwise_xor(column, static_cast<std::int64_t>(first)));
    }
    result.push_back(adapter::shifted_right(key, 1).masked_fill(incomplete, data::kNoKey));
  }
  return at::stack(result, 1);
}

}  // namespace tally::recipes
