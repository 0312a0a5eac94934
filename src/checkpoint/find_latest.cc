#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/folder.h"
#include "tally/checkpoint.h"

namespace tally::checkpoint {
namespace {

Result<void> check_whole(const std::filesystem::path& path) {
  TALLY_TRY(const std::unique_ptr<Reader> reader, Reader::open(path));
  return reader->verify();
}

}  // namespace

Result<std::filesystem::path> find_latest(const std::filesystem::path& folder) {
  std::vector<std::uint64_t> steps = list_steps(folder);
  if (steps.empty())
    return Error{.code = ErrorCode::kInvalid,
                 .message = fmt::format("no checkpoint in {}", folder.string())};
  const std::filesystem::path newest = path_of(folder, steps.back());
  const auto whole = check_whole(newest);
  if (whole.has_value()) return newest;
  steps.pop_back();
  const auto good = std::find_if(steps.rbegin(), steps.rend(), [&](std::uint64_t step) {
    return check_whole(path_of(folder, step)).has_value();
  });
  const std::string advice =
      good == steps.rend()
          ? std::string("no other one is whole")
          : fmt::format("the newest whole one is {}: --resume={}", name_of_step(*good), *good);
  return Error{.code = whole.error().code,
               .message = fmt::format("the newest checkpoint is damaged: {}; {}",
                                      whole.error().message, advice)};
}

}  // namespace tally::checkpoint
