#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "net/socket.h"
#include "net/stream.h"
#include "tally/error.h"

struct bio_st;

namespace tally::net {

// The encrypted side of a TLS connection. Records gather in a buffer that one send() carries away,
// and are found in a buffer that one recv() filled. During the handshake OpenSSL uses both buffers
// through a BIO; after it the stream does so directly. Threads: after the handshake one may send
// while another receives.
class TlsPipe final {
 public:
  explicit TlsPipe(Socket socket);

  // A BIO for SSL_set_bio(), which takes it over; the pipe must outlive it. nullptr: out of memory.
  bio_st* make_bio();

  int descriptor() const { return socket_.descriptor(); }

  // Bytes that wait to be sent.
  std::size_t pending_bytes() const { return out_end_ - out_begin_; }
  // Whether there is room for two more records of the largest size.
  bool has_room() const;
  // Where the next record may be written, if has_room(); append() says how long it became.
  std::byte* room();
  void append(std::size_t bytes) { out_end_ += bytes; }
  // kMoved when nothing is pending any more.
  Io flush();

  // The next whole record, for as long as nothing else is called. Empty: none yet, end() says
  // whether one may still come; kCorrupt: what arrived cannot be a record.
  Result<std::span<const std::byte>> next_record();
  void consume(std::size_t bytes) { in_begin_ += bytes; }

  // How receiving ended, if it did: kClosed, or kFailed with the system's error number.
  Io::State end() const { return end_; }
  int error_number() const { return error_number_.load(std::memory_order_relaxed); }
  void shutdown();

  // For the BIO. take() accepts all or nothing; give() returns 0 when it would block or has ended.
  bool take(std::span<const std::byte> bytes);
  std::size_t give(std::span<std::byte> into);

 private:
  void close_up();
  bool refill();
  Io ended(int error_number);

  Socket socket_;
  std::unique_ptr<std::byte[]> out_;
  std::size_t out_begin_ = 0;
  std::size_t out_end_ = 0;
  std::unique_ptr<std::byte[]> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  Io::State end_ = Io::State::kBlocked;
  std::atomic<int> error_number_{0};  // both directions may fail
};

}  // namespace tally::net
