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

// How far one call of a Stream came.
struct Io {
  enum class State : std::uint8_t {
    kMoved,    // `bytes` of them; fewer than asked for: the rest would block
    kBlocked,  // none now
    kClosed,   // the peer ended the connection, in order or by a reset
    kFailed,   // Stream::failure() says why
  };
  State state = State::kBlocked;
  std::size_t bytes = 0;
};

// Bytes in both directions over one connected socket. Never blocks. Owns the socket.
// Threads: calls must not overlap.
class Stream {
 public:
  virtual ~Stream() = default;

  // Sets the connection up: true when done, false while it waits for the socket to become readable
  // (or writable, if wants_write()). kRefused if the peer is not who it should be, kPeerLost if it
  // went away. Nothing may be read or written before it is done.
  virtual Result<bool> handshake() = 0;

  // Takes as many bytes of `parts`, in order, as fit. What is taken need not be kept.
  virtual Io write(std::span<const iovec> parts) = 0;
  // Fills `parts` in order with what is there.
  virtual Io read(std::span<const iovec> parts) = 0;
  // Whether bytes that write() took still wait for the socket to become writable.
  virtual bool wants_write() const = 0;
  // Sends such bytes; kMoved when none are left.
  virtual Io flush() = 0;
  // No more will be written; the peer reads the end after what was sent. Reading goes on.
  virtual void shutdown() = 0;

  // Why the last call ended with kFailed.
  virtual const Error& failure() const = 0;
  virtual int descriptor() const = 0;
  // Whether both sides have proven that they know the job's secret.
  virtual bool authenticated() const = 0;
  // What the peer called itself during the handshake, proven only if authenticated(); may be empty.
  virtual std::string claimed_identity() const { return {}; }
  // Whether others can neither read nor alter the bytes: frames then need no checksum of their own.
  virtual bool encrypted() const = 0;
};

// The bytes as they are.
std::unique_ptr<Stream> plain_stream(Socket socket);

// Carries handshake() to its end; kTimeout if `by` passes first.
Result<void> complete_handshake(Stream& stream, Deadline by);
// All of `bytes`, or an error: for setting things up, where there is nothing else to do meanwhile.
Result<void> write_all(Stream& stream, std::span<const std::byte> bytes, Deadline by);
Result<void> read_all(Stream& stream, std::span<std::byte> bytes, Deadline by);

}  // namespace tally::net
