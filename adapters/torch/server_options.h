#pragma once
#include <functional>

#include "exchange/server/server_place.h"
#include "tally/torch.h"

namespace tally::adapter {

// The options, with the directory and the secret that `tally run --servers` has put into the
// environment if the options name no servers. Failure if the secret cannot be read.
ServerOptions with_launcher(ServerOptions options,
                            const std::function<const char*(const char*)>& variable);

exchange::PlaceOptions place_options(const ServerOptions& options);

}  // namespace tally::adapter
