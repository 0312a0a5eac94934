#pragma once
#include <optional>
#include <string>

#include "net/tls_records.h"
#include "tally/job.h"

struct ssl_st;
struct ssl_ctx_st;

namespace tally::net {

inline constexpr std::size_t kMaxIdentityBytes = 64;

// What one TLS handshake needs to know, and what it learns. Wipes the secrets when it goes.
struct PskExchange {
  Secret secret;
  std::string identity;  // of this side
  std::string claimed;   // by the peer, printable, whether or not it knew the secret
  // What the handshake agreed on for data from the client and from the server.
  std::optional<TrafficSecret> client_secret;
  std::optional<TrafficSecret> server_secret;

  PskExchange(const Secret& job_secret, std::string own_identity)
      : secret(job_secret), identity(std::move(own_identity)) {}
  ~PskExchange();
  PskExchange(const PskExchange&) = delete;
  PskExchange& operator=(const PskExchange&) = delete;
};

// Lets handshakes of `context` use the PskExchange that attach() gave their connection.
void use_psk(ssl_ctx_st* context);
// `exchange` must live until the handshake is over.
void attach(ssl_st* connection, PskExchange* exchange);

}  // namespace tally::net
