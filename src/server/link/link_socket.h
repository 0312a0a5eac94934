#pragma once
#include <sys/uio.h>

#include <memory>
#include <span>

#include "base/descriptor.h"
#include "net/socket.h"
#include "net/stream.h"
#include "tally/error.h"

namespace tally::server {

// A connected socket as links use it. Never blocks. Threads: one may read while another writes;
// flush() counts as writing.
class LinkSocket {
 public:
  virtual ~LinkSocket() = default;

  // As net::Stream::handshake().
  virtual Result<bool> handshake() = 0;
  // As net::Stream::write(). A local socket sends `descriptor`, unless it is -1, with the first
  // byte.
  virtual net::Io write(std::span<const iovec> parts, int descriptor) = 0;
  virtual net::Io read(std::span<const iovec> parts) = 0;
  virtual bool wants_write() const = 0;
  virtual net::Io flush() = 0;
  virtual void shutdown() = 0;
  // Whether a local peer has ended its writing side, even if not all that it wrote is read yet.
  virtual bool peer_ended() const { return false; }
  // Why a call ended with kFailed.
  virtual Error failure() const = 0;
  virtual int descriptor() const = 0;

  // Whether both ends are processes of one user on one host, which can pass descriptors.
  virtual bool local() const = 0;
  // Whether payloads need a checksum: where neither memory nor TLS guards them.
  virtual bool checksummed() const = 0;
  // The oldest received descriptor that was not taken; not open: none. For the reading thread.
  virtual Descriptor take_descriptor() = 0;
};

std::unique_ptr<LinkSocket> plain_link(net::Socket socket);
std::unique_ptr<LinkSocket> local_link(Descriptor socket);
std::unique_ptr<LinkSocket> tls_link(std::unique_ptr<net::Stream> stream);

}  // namespace tally::server
