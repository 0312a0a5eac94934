#include "adapters/torch/server_options.h"

#include "adapters/torch/tensors.h"

namespace tally::adapter {

ServerOptions with_launcher(ServerOptions options,
                            const std::function<const char*(const char*)>& variable) {
  const char* const directory = variable("TALLY_DIRECTORY");
  if (directory == nullptr || !options.directory.empty() || options.count > 0) return options;
  options.directory = directory;
  if (!options.secret) options.secret = or_throw(options_from(variable)).secret;
  return options;
}

exchange::PlaceOptions place_options(const ServerOptions& options) {
  return {.directory = options.directory,
          .secret = options.secret,
          .count = options.count,
          .replicas = options.replicas,
          .host = options.host,
          .snapshots = options.snapshots,
          .silence_limit = options.silence_limit};
}

}  // namespace tally::adapter
