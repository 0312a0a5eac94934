#pragma once
#include <string>

#include "tally/error.h"

namespace tally::group {

// The same text in all processes that can share memory and find each other's processes: same boot,
// same namespaces, same user, same `label`.
Result<std::string> host_identity(const std::string& label);

std::string host_name();

// The same text in all processes that read the same steady clock: those of one boot of one machine.
std::string machine_identity();

// A random, unique name for a local socket.
Result<std::string> random_name();

}  // namespace tally::group
