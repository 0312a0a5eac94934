#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "net/socket.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::net {

// The outcome of one call of a Stream.
struct Io {
  enum class State : std::uint8_t {
    kMoved,    // `bytes` were moved; fewer than asked for: the rest would block
    kBlocked,  // nothing can be moved now
    kClosed,   // the peer ended the connection, in order or by a reset
    kFailed,   // Stream::failure() has the reason
  };
  State state = State::kBlocked;
  std::size_t bytes = 0;
};

// Bytes in both directions over one connected socket or a pair of pipes. A Stream never blocks and
// owns its descriptors. Threads: calls must not overlap, except where a function below says so.
class Stream {
 public:
  virtual ~Stream() = default;

  // Sets the connection up: true when done, false while it waits for the socket to become readable
  // (or writable, if wants_write()). kRefused if the peer fails authentication, kPeerLost if it
  // disconnects. No bytes may be read or written before it is done.
  virtual Result<bool> handshake() = 0;

  // Takes as many bytes of `parts`, in order, as fit. The caller need not keep bytes that were
  // taken.
  virtual Io write(std::span<const iovec> parts) = 0;
  // Fills `parts` in order with the bytes that have arrived.
  virtual Io read(std::span<const iovec> parts) = 0;
  // Whether bytes that write() took still wait for the socket to become writable.
  virtual bool wants_write() const = 0;
  // Sends such bytes; kMoved when none are left.
  virtual Io flush() = 0;
  // Ends writing; the peer reads the end after the bytes sent. Reading continues.
  virtual void shutdown() = 0;

  // Why the last call ended with kFailed.
  virtual Error failure() const = 0;
  // The descriptor to poll; a pair of pipes has another one for writing.
  virtual int descriptor() const = 0;
  virtual int write_descriptor() const { return descriptor(); }
  // Whether both sides have proven that they know the job's secret.
  virtual bool authenticated() const = 0;
  // Whether the peer has shown the job's secret. This may be true before authenticated(), for bytes
  // that the peer may have recorded from somebody else.
  virtual bool showed_secret() const { return authenticated(); }
  // The name that the peer gave itself during the handshake, proven only if authenticated(); may be
  // empty.
  virtual std::string claimed_identity() const { return {}; }
  // Whether others can neither read nor alter the bytes: frames then need no checksum of their own.
  virtual bool encrypted() const = 0;

  // Local sockets only: whether both ends belong to one user on one host and can pass descriptors.
  virtual bool local() const { return false; }
  // As write(); a local socket passes a copy of `descriptor` with the first byte, unless it is -1.
  virtual Io write_with(std::span<const iovec> parts, int /*descriptor*/) { return write(parts); }
  // The oldest descriptor that arrived and was not taken; not open: none.
  virtual Descriptor take_descriptor() { return {}; }
  // Whether a local peer has ended its writing side, even if not all that it wrote is read yet.
  virtual bool peer_ended() const { return false; }

  // Whether messages over this stream need a checksum: neither TLS nor the host's memory protects
  // them.
  bool checksummed() const { return !encrypted() && !local(); }
};

// TCP without protection. Threads: one may read while another writes.
std::unique_ptr<Stream> plain_stream(Socket socket);
// The same for a socket that connects: handshake() refuses a listener of another user of this
// machine (net/peer_user.h).
std::unique_ptr<Stream> plain_client_stream(Socket socket);
// A local socket, which passes descriptors. Threads: one may read while another writes.
std::unique_ptr<Stream> local_stream(Descriptor socket);
// Reads from one pipe and writes to the other; both must be non-blocking.
std::unique_ptr<Stream> pipe_stream(Descriptor read_end, Descriptor write_end);
// Guards `stream` by a mutex, so that one thread may read while another writes.
std::unique_ptr<Stream> synchronized(std::unique_ptr<Stream> stream);

// Carries handshake() to its end; kTimeout if `by` passes first.
Result<void> complete_handshake(Stream& stream, Deadline by);
// All of `bytes`, or an error: for connection setup, where the caller has nothing else to do.
Result<void> write_all(Stream& stream, std::span<const std::byte> bytes, Deadline by);
Result<void> read_all(Stream& stream, std::span<std::byte> bytes, Deadline by);

// The error of a call that ended with kClosed or kFailed.
Error end_of(const Stream& stream, const Io& io);

}  // namespace tally::net
