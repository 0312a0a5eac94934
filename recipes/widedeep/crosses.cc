#include "recipes/widedeep/model.h"

#include <algorithm>
#include <initializer_list>

#include "data/keyed.h"
#include "data/permutation.h"

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
  // MovieLens: the genres that a user likes.
  const auto user = std::find(fields.begin(), fields.end(), "user");
  const auto movie = std::find(fields.begin(), fields.end(), "movie");
  if (user == fields.end() || movie == fields.end()) return crosses;
  for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(fields.size()); ++slot)
    if (slot != user - fields.begin() && slot != movie - fields.begin())
      crosses.push_back({user - fields.begin(), slot});
  return crosses;
}

at::Tensor crossed_keys(const at::Tensor& keys, const std::vector<Cross>& crosses) {
  const at::Tensor from = keys.to(at::kCPU).contiguous();
  const auto count = static_cast<std::int64_t>(crosses.size());
  at::Tensor result = at::empty({from.size(0), count}, at::kLong);
  std::int64_t* to = result.data_ptr<std::int64_t>();
  for (std::int64_t sample = 0; sample < from.size(0); ++sample) {
    const std::int64_t* const row = from.data_ptr<std::int64_t>() + sample * from.size(1);
    for (std::size_t i = 0; i < crosses.size(); ++i) {
      // Crosses of the same keys have different keys.
      std::uint64_t key = i;
      bool whole = true;
      for (const std::int64_t slot : crosses[i]) {
        whole = whole && row[slot] != data::kNoKey;
        key = data::mix(key, static_cast<std::uint64_t>(row[slot]));
      }
      *to++ = whole ? static_cast<std::int64_t>(key >> 1) : data::kNoKey;
    }
  }
  return result.to(keys.device());
}

}  // namespace tally::recipes
