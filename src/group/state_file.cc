#include "group/state_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/descriptor.h"
#include "base/errors.h"
#include "base/file.h"
#include "group/bodies.h"

namespace tally::group {
namespace {

constexpr const char* kStateFileFormat = "tally coordinator state 1";
constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

Error corrupt_line(std::size_t line, std::string_view what) {
  return corrupt("line {} of the state file: {}", line, what);
}

// A newline would end the entry.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::optional<Presence> presence_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Presence::kLeft); ++i)
    if (to_string(static_cast<Presence>(i)) == name) return static_cast<Presence>(i);
  return std::nullopt;
}

// "member RANK PID PRESENCE HOST", and then why it is lost.
Result<Member> member_from(std::istringstream& words, std::size_t line) {
  Member member;
  std::string presence;
  if (!(words >> member.rank >> member.pid >> presence >> member.host))
    return corrupt_line(line, "not a member");
  const auto named = presence_named(presence);
  if (!named || member.rank < 0 || member.rank >= kMaxRanks)
    return corrupt_line(line, "not a member");
  member.presence = *named;
  std::getline(words >> std::ws, member.fate);
  return member;
}

// "process RANK STARTED HOST_IDENTITY", for the process of a member above.
Result<void> take_process(std::istringstream& words, std::vector<Member>& members,
                          std::size_t line) {
  Rank rank = 0;
  std::uint64_t started = 0;
  std::string host_identity;
  if (!(words >> rank >> started >> host_identity)) return corrupt_line(line, "not a process");
  const auto member = std::find_if(members.begin(), members.end(),
                                   [rank](const Member& each) { return each.rank == rank; });
  if (member == members.end()) return corrupt_line(line, "the process of no member");
  member->started = started;
  member->host_identity = std::move(host_identity);
  return {};
}

Error system_error(const std::string& what) {
  return make_error(ErrorCode::kSystem, "{}: {}", what, std::strerror(errno));
}

}  // namespace

bool SavedState::over() const {
  if (static_cast<int>(members.size()) < size) return false;
  return std::all_of(members.begin(), members.end(), [](const Member& member) {
    return member.presence == Presence::kLost || member.presence == Presence::kLeft;
  });
}

std::string to_text(const SavedState& state) {
  std::string text = fmt::format("{}\njob {}\ngeneration {}\nsize {}\n", kStateFileFormat,
                                 on_one_line(state.job), state.generation, state.size);
  for (const Member& member : state.members) {
    std::string host = on_one_line(member.host);
    std::replace(host.begin(), host.end(), ' ', '_');
    text += fmt::format("member {} {} {} {} {}\n", member.rank, member.pid,
                        to_string(member.presence), host, on_one_line(member.fate));
    if (member.started != 0)
      text += fmt::format("process {} {} {}\n", member.rank, member.started, member.host_identity);
  }
  return text + "end\n";
}

Result<SavedState> state_from_text(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::size_t number = 1;
  if (!std::getline(lines, line) || line != kStateFileFormat)
    return corrupt_line(1, "not a state of ours");
  SavedState state;
  while (std::getline(lines, line)) {
    ++number;
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "end") return state;
    if (kind == "job") {
      std::getline(words >> std::ws, state.job);
    } else if (kind == "generation") {
      if (!(words >> state.generation)) return corrupt_line(number, "no generation");
    } else if (kind == "size") {
      if (!(words >> state.size) || state.size < 1 || state.size > kMaxRanks)
        return corrupt_line(number, "no size");
    } else if (kind == "member") {
      TALLY_TRY(Member member, member_from(words, number));
      if (member.rank >= state.size) return corrupt_line(number, "a rank beyond the size");
      state.members.push_back(std::move(member));
    } else if (kind == "process") {
      TALLY_TRY(take_process(words, state.members, number));
    } else {
      return corrupt_line(number, "neither job, generation, size, member, process nor end");
    }
  }
  return corrupt_line(number, "the end is missing");
}

Result<void> save_state(const std::string& path, const SavedState& state) {
  const std::string text = to_text(state);
  const std::string draft = path + ".new";
  {
    const Descriptor file(
        open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.open()) return system_error(draft);
    // A file of that name may have existed with another mode.
    if (fchmod(file.descriptor(), 0600) != 0) return system_error(draft);
    if (::write(file.descriptor(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      return system_error(draft);
  }
  if (rename(draft.c_str(), path.c_str()) != 0) return system_error(path);
  return {};
}

Result<std::optional<SavedState>> load_state(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::optional<SavedState>();
    return system_error(path);
  }
  if (info.st_uid != geteuid() || info.st_size > static_cast<off_t>(kMaxBytes))
    return invalid("{} is not a state file of this user", path);
  auto state = state_from_text(file_contents(path).value_or(""));
  if (!state.has_value())
    return make_error(state.error().code, "{}: {}", path, state.error().message);
  return std::optional(*std::move(state));
}

}  // namespace tally::group
