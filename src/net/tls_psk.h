#pragma once
#include <optional>
#include <string>

#include "net/tls_records.h"
#include "tally/job.h"

struct ssl_st;
struct ssl_ctx_st;

namespace tally::net {

inline constexpr std::size_t kMaxIdentityBytes = 64;

// Input and output of one TLS handshake. The destructor wipes the secrets.
struct PskExchange {
  Secret secret;
  std::string identity;  // of this side
  std::string claimed;   // identity of the peer, printable and unproven
  // Agreed on in the handshake, for data from the client and from the server.
  std::optional<TrafficSecret> client_secret;
  std::optional<TrafficSecret> server_secret;

  PskExchange(const Secret& job_secret, std::string own_identity)
      : secret(job_secret), identity(std::move(own_identity)) {}
  ~PskExchange();
  PskExchange(const PskExchange&) = delete;
  PskExchange& operator=(const PskExchange&) = delete;
};

// Makes handshakes of `context` use the PskExchange that attach() gave their connection.
void use_psk(ssl_ctx_st* context);
// `exchange` must live until the handshake is over.
void attach(ssl_st* connection, PskExchange* exchange);

}  // namespace tally::net
