#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "net/socket.h"
#include "net/stream.h"
#include "tally/error.h"
#include "tally/job.h"

namespace tally::net {

struct TlsOptions {
  Secret secret;
  // The name of this side in the peer's error messages, such as "tally rank 3". At most 64 bytes.
  std::string identity;
  // The sending key is renewed after this many bytes, well below the limit of AES-GCM for one key
  // (2^24.5 records of 16 KiB, RFC 8446 section 5.5).
  std::uint64_t renew_key_bytes = std::uint64_t{64} << 30;
};

// Makes streams of TLS 1.3 with the job's secret as external pre-shared key (psk_dhe_ke, so that a
// stolen secret does not decrypt recorded connections); no certificates, no tickets.
// A peer with another secret fails handshake() on both sides with kRefused; the error of the
// accepting side includes the identity that the peer claimed.
// Threads: client() and server() may be called from several; a stream outlives its context. After
// the handshake one thread may read from a stream while another writes to it.
class TlsContext final {
 public:
  static Result<std::unique_ptr<TlsContext>> make(TlsOptions options);
  ~TlsContext();

  // For a socket that connected, or that was accepted.
  Result<std::unique_ptr<Stream>> client(Socket socket) const;
  Result<std::unique_ptr<Stream>> server(Socket socket) const;

 private:
  class Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tally::net
