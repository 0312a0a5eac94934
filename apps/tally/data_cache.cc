#include "apps/tally/data_cache.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

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

}  // namespace

std::filesystem::path data_cache_folder() {
  // The XDG base directory specification says to ignore a relative path.
  const std::string cache = variable("XDG_CACHE_HOME");
  const bool absolute = !cache.empty() && cache.front() == '/';
  return (absolute ? std::filesystem::path(cache) : home_folder() / ".cache") / "tally" /
         "datasets";
}

}  // namespace tally::app
