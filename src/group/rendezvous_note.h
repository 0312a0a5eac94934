#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "net/socket.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::group {

// The address and secret of the rendezvous.
struct RendezvousPoint {
  net::Address address;
  std::optional<Secret> secret;
};

// The same as text, for a launcher's key-value store or a local socket: "tally1,HOST,PORT,SECRET",
// with "-" for no secret. The note has no space and no "=", which PMI-1 cannot carry, and at most
// kMaxNoteBytes.
inline constexpr std::size_t kMaxNoteBytes = 400;
std::string to_note(const RendezvousPoint& place);
// kCorrupt if the text is not such a note.
Result<RendezvousPoint> read_note(std::string_view note);

}  // namespace tally::group
