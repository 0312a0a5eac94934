// Names in the folder of checkpoints:
//
//   step-0000000120        a complete checkpoint
//   .step-0000000120.part  being written; publish() renames it
//   .step-0000000120.old   being removed
//   old-step-0000000120    set aside by retain(); then old-step-0000000120.2, ...
//   .run                   the run that writes, see last_run()
//
// Only complete checkpoints have a name of the first form, also after a crash. remove_leftovers()
// removes the .part and .old folders of killed writers.
#include "checkpoint/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>

#include "base/errors.h"
#include "base/file_io.h"
#include "base/log.h"

namespace tally::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepStart = "step-";
constexpr std::string_view kPartEnd = ".part";
constexpr std::string_view kOldEnd = ".old";

Result<void> remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return system_error(folder, "cannot be removed", error.value());
  return {};
}

// Renames the checkpoint before removing it, so that a crash leaves no partial checkpoint with a
// final name.
Result<void> remove_checkpoint(const fs::path& folder, std::uint64_t step) {
  const fs::path old = folder / fmt::format(".{}{}", name_of_step(step), kOldEnd);
  TALLY_TRY(remove_folder(old));
  TALLY_TRY(rename_path(path_of(folder, step), old));
  return remove_folder(old);
}

// Keeps what was set aside before: of several checkpoints of a step, the later ones get a number.
Result<std::string> set_aside(const fs::path& folder, std::uint64_t step) {
  const std::string first = "old-" + name_of_step(step);
  std::string aside = first;
  std::error_code ignored;
  for (int number = 2; fs::exists(folder / aside, ignored); ++number)
    aside = fmt::format("{}.{}", first, number);
  TALLY_TRY(rename_path(path_of(folder, step), folder / aside));
  return aside;
}

Result<void> set_aside(const fs::path& folder, const std::vector<std::uint64_t>& steps) {
  std::vector<std::string> names;
  for (const std::uint64_t step : steps) {
    TALLY_TRY(std::string name, set_aside(folder, step));
    names.push_back(std::move(name));
  }
  if (!names.empty())
    log_warning(fmt::format(
        "{} has checkpoints of an earlier training, which this one does not continue: kept as {}",
        folder.string(), fmt::join(names, ", ")));
  return {};
}

Result<void> check_whole(const fs::path& path) {
  TALLY_TRY(const std::unique_ptr<Reader> reader, Reader::open(path));
  return reader->verify();
}

constexpr const char* kLockFile = ".lock";
constexpr std::uint64_t kMaxLockBytes = 1024;
constexpr const char* kRunFile = ".run";
constexpr std::uint64_t kMaxRunBytes = 4096;

std::string own_text() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  // The time keeps the text unique when the system reuses a process id.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("process {} on {} since {}\n", ::getpid(), host.data(),
                     std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

std::string name_of_step(std::uint64_t step) { return fmt::format("{}{:010}", kStepStart, step); }

std::optional<std::uint64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kStepStart)) return std::nullopt;
  const std::string_view digits = name.substr(kStepStart.size());
  std::uint64_t step = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // Accept only the form that name_of_step() writes, so that each step has exactly one name.
  if (parsed.ec != std::errc() || name_of_step(step) != name) return std::nullopt;
  return step;
}

fs::path path_of(const fs::path& folder, std::uint64_t step) { return folder / name_of_step(step); }

fs::path part_of(const fs::path& folder, std::uint64_t step) {
  return folder / fmt::format(".{}{}", name_of_step(step), kPartEnd);
}

std::vector<std::uint64_t> list_steps(const fs::path& folder) {
  std::vector<std::uint64_t> steps;
  for (const std::string& name : names_in(folder))
    if (const auto step = step_of_name(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

Retention decide_retention(const std::vector<std::uint64_t>& steps, std::uint64_t saved, int keep) {
  Retention retention;
  for (const std::uint64_t step : steps)
    (step > saved ? retention.set_aside : retention.remove).push_back(step);
  std::sort(retention.remove.begin(), retention.remove.end());
  const std::size_t stay = std::min(retention.remove.size(), static_cast<std::size_t>(keep));
  retention.remove.resize(retention.remove.size() - stay);
  return retention;
}

Result<void> publish(const fs::path& folder, std::uint64_t step) {
  const fs::path part = part_of(folder, step);
  const fs::path name = path_of(folder, step);
  if (::rename(part.c_str(), name.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST)
      return system_error(part, "cannot be renamed", errno);
    // A checkpoint of this step exists. The exchange is atomic, so the folder always has one of the
    // two; remove_leftovers() then removes the old one.
    if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) != 0)
      return system_error(name, "exists and cannot be exchanged with the new checkpoint", errno);
  }
  return sync_folder(folder);
}

Result<void> retain(const fs::path& folder, const Retention& retention) {
  TALLY_TRY(set_aside(folder, retention.set_aside));
  for (const std::uint64_t step : retention.remove) TALLY_TRY(remove_checkpoint(folder, step));
  return {};
}

Result<void> remove_leftovers(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    const std::string_view all = name;
    if (!all.starts_with('.')) continue;
    for (const std::string_view end : {kPartEnd, kOldEnd}) {
      if (all.size() <= end.size() + 1 || !all.ends_with(end)) continue;
      if (step_of_name(all.substr(1, all.size() - 1 - end.size())))
        TALLY_TRY(remove_folder(folder / name));
    }
  }
  return {};
}

Result<fs::path> find_latest(const fs::path& folder) {
  std::vector<std::uint64_t> steps = list_steps(folder);
  if (steps.empty()) return invalid(fmt::format("no checkpoint in {}", folder.string()));
  const fs::path newest = path_of(folder, steps.back());
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
  return make_error(whole.error().code, "the newest checkpoint is damaged: {}; {}",
                    whole.error().message, advice);
}

std::string last_run(const fs::path& folder) {
  const auto run = read_text(folder / kRunFile, kMaxRunBytes);
  return run.has_value() ? *run : std::string();
}

Result<void> store_run(const fs::path& folder, const std::string& run) {
  if (last_run(folder) == run) return {};
  const fs::path written = folder / fmt::format("{}{}", kRunFile, kPartEnd);
  std::error_code error;
  fs::remove(written, error);
  TALLY_TRY(write_text(written, run));
  return rename_path(written, folder / kRunFile);
}

std::string FolderLock::text_in(const fs::path& folder) {
  const auto text = read_text(folder / kLockFile, kMaxLockBytes);
  return text.has_value() ? *text : std::string();
}

Result<FolderLock> FolderLock::take(const fs::path& folder) {
  const fs::path path = folder / kLockFile;
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.open()) return system_error(path, "cannot be made", errno);
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(path, "cannot be locked", errno);
    const std::string holder = text_in(folder);
    return make_error(ErrorCode::kRefused,
                      "another job writes its checkpoints to {} ({}): give this one another folder",
                      folder.string(), holder.substr(0, holder.find(" since")));
  }
  const std::string text = own_text();
  if (::ftruncate(file.descriptor(), 0) != 0 ||
      ::pwrite(file.descriptor(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return system_error(path, "cannot be written", errno);
  return FolderLock(std::move(file), text);
}

}  // namespace tally::checkpoint
