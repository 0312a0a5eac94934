#pragma once
#include <poll.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/stream.h"
#include "tally/deadline.h"
#include "wire/framing.h"

namespace tally::net {

// A connection for messages: framed, with bounded memory in both directions. The data paths of
// TcpTransport and of the parameter server have senders and receivers of their own, which move
// payloads without copies. All other connections use this class. Threads: one.
class MessageConnection final {
 public:
  using Payload = std::vector<std::byte>;  // the first byte is the kind

  struct Options {
    wire::Framing framing = wire::Framing::kControlFrame;
    // The connection fails when more than this waits for a peer that does not read.
    std::size_t max_unsent_bytes = std::size_t{1} << 20;
    // Reads of 16 KiB in one advance(), so that a peer that sends much does not starve the others.
    std::size_t max_reads = 32;
    // Not empty: the first message follows this text. The bytes before it are noise, such as the
    // output of a login shell.
    std::string_view preamble = {};
  };
  MessageConnection(std::unique_ptr<Stream> stream, const Options& options)
      : options_(options), stream_(std::move(stream)), in_(options.framing) {}

  // Queues a message; advance() sends it.
  void send(std::span<const std::byte> payload) {
    send_raw(wire::frame(options_.framing, payload));
  }
  // Queues bytes that are no message, such as a greeting or a preamble.
  void send_raw(std::vector<std::byte> bytes);
  // Completes the handshake, reads and sends without blocking, and returns the messages that
  // arrived. An error ends the connection; it is returned after the messages that arrived before
  // it.
  Result<std::vector<Payload>> advance();
  // Sends without blocking; advance() returns the error, if any.
  void flush();

  // These block: until everything is sent, or until a message has arrived.
  Result<void> flush(Deadline by);
  Result<Payload> receive(Deadline by);

  // Ends writing and drops unsent bytes.
  void shutdown();

  const Stream& stream() const { return *stream_; }
  // Adds the descriptors for poll(); without `read`, only for sending.
  void add_to(std::vector<pollfd>& entries, bool read = true) const;
  // Whether advance() has work even if poll() finds nothing ready.
  bool pending() const { return more_ || failure_ || !received_.empty() || broken(); }
  bool established() const { return established_; }
  bool unsent() const { return !out_.empty() || stream_->wants_write(); }
  std::size_t unsent_bytes() const { return unsent_bytes_; }
  // Whether the preamble has arrived, and the noise before it while it has not.
  bool introduced() const { return options_.preamble.empty() || introduced_; }
  const std::string& noise() const { return noise_; }
  // All bytes that have arrived.
  std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  // Whether writing has ended and no more bytes can arrive. Two pipes end independently: bytes may
  // still arrive over the one that is open.
  bool broken() const {
    return write_ended_ && stream_->descriptor() == stream_->write_descriptor();
  }
  Result<bool> establish();
  void write_some();
  void read_some(std::size_t max_reads);
  void take(std::span<const std::byte> bytes);
  void fail(Error error) {
    if (!failure_) failure_ = std::move(error);
  }

  const Options options_;
  const std::unique_ptr<Stream> stream_;
  bool established_ = false;
  bool introduced_ = false;
  bool more_ = false;         // the last advance() did not read everything
  bool write_ended_ = false;  // the peer no longer reads
  std::string noise_;
  wire::FrameBuffer in_;
  std::deque<Payload> received_;
  std::uint64_t received_bytes_ = 0;
  std::deque<std::vector<std::byte>> out_;
  std::size_t sent_bytes_ = 0;    // of the first of out_
  std::size_t unsent_bytes_ = 0;  // of all of out_
  std::optional<Error> failure_;
};

}  // namespace tally::net
