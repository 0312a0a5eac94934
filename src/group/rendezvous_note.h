#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "net/socket.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::group {

// Where rank 0 waits for the others.
struct MeetingPlace {
  net::Address address;
  std::optional<Secret> secret;
};

// A note that tells it, for a launcher's store or a local socket: "tally1,HOST,PORT,SECRET", with
// "-" for none. It has no space and no "=", which PMI-1 could not carry, and at most kMaxNoteBytes.
inline constexpr std::size_t kMaxNoteBytes = 400;
std::string to_note(const MeetingPlace& place);
// kCorrupt if it is no such note.
Result<MeetingPlace> read_note(std::string_view note);

}  // namespace tally::group
