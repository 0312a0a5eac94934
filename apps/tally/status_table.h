#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "group/watch_message.h"

namespace tally::app {

// One word: computing, operating, waiting, failed, expected, unreachable, lost, left.
std::string state_word(const group::MemberStatus& member);
// Returns the state as text, with operation, peer and duration.
std::string state_text(const group::MemberStatus& member);

// Returns a title, the stall if there is one, and one line per rank.
std::string status_table(const group::JobStatus& status);
nlohmann::ordered_json status_json(const group::JobStatus& status);

}  // namespace tally::app
