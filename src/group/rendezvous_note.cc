#include "group/rendezvous_note.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "base/errors.h"
#include "base/option_text.h"
#include "group/secret_text.h"

namespace tally::group {
namespace {

constexpr std::string_view kFormat = "tally1";

Error corrupt_note(const char* what) { return corrupt("the note on where to meet: {}", what); }

std::vector<std::string_view> fields_of(std::string_view note) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = note.find(',');
    fields.push_back(note.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    note.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string to_note(const RendezvousPoint& place) {
  const std::string note =
      fmt::format("{},{},{},{}", kFormat, place.address.host, place.address.port,
                  place.secret ? to_hex(*place.secret) : "-");
  TALLY_CHECK(note.size() <= kMaxNoteBytes);
  return note;
}

Result<RendezvousPoint> read_note(std::string_view note) {
  if (note.size() > kMaxNoteBytes) return corrupt_note("too long");
  const std::vector<std::string_view> fields = fields_of(note);
  if (fields.size() != 4 || fields[0] != kFormat) return corrupt_note("not of this version");
  RendezvousPoint place;
  place.address.host = fields[1];
  if (place.address.host.empty()) return corrupt_note("no host");
  const auto port = parse_as<std::uint16_t>(fields[2]);
  if (!port || *port == 0) return corrupt_note("no port");
  place.address.port = *port;
  if (fields[3] == "-") return place;
  auto secret = secret_from_hex(fields[3]);
  if (!secret.has_value()) return corrupt_note("no secret");
  place.secret = *secret;
  return place;
}

}  // namespace tally::group
