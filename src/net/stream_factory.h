#pragma once
#include <memory>
#include <optional>
#include <string>

#include "net/stream.h"
#include "net/tls_stream.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::net {

// Makes streams over TCP sockets: TLS where the job has a secret, plain ones where it has none.
// Plain streams of the side that connects refuse listeners of other users of this machine; an
// Acceptor refuses callers of other users.
// Threads: as TlsContext.
class StreamFactory final {
 public:
  // Plain streams.
  StreamFactory() = default;
  // `identity` is the name of this side in the peer's error messages: "tally rank 3".
  static Result<StreamFactory> make(const std::optional<Secret>& secret, std::string identity) {
    StreamFactory factory;
    if (secret) {
      TALLY_TRY(factory.tls_,
                TlsContext::make({.secret = *secret, .identity = std::move(identity)}));
    }
    return factory;
  }

  // Whether streams prove the job's secret.
  bool secure() const { return tls_ != nullptr; }

  // Over a socket that connected, or that was accepted.
  Result<std::unique_ptr<Stream>> client(Socket socket) const {
    return tls_ ? tls_->client(std::move(socket)) : plain_client_stream(std::move(socket));
  }
  Result<std::unique_ptr<Stream>> server(Socket socket) const {
    return tls_ ? tls_->server(std::move(socket)) : plain_stream(std::move(socket));
  }

 private:
  std::unique_ptr<TlsContext> tls_;
};

}  // namespace tally::net
