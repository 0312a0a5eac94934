#include "net/tls_bio.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "net/tls_records.h"

namespace tally::net {
namespace {

// The largest size of one send(). Both buffers together fit into the second-level cache.
constexpr std::size_t kOutBytes = 10 * kMaxRecordBytes;
constexpr std::size_t kInBytes = (std::size_t{128} << 10) + kMaxRecordBytes;

TlsPipe* pipe_of(BIO* bio) { return static_cast<TlsPipe*>(BIO_get_data(bio)); }

int bio_write(BIO* bio, const char* data, std::size_t bytes, std::size_t* taken) {
  BIO_clear_retry_flags(bio);
  *taken = 0;
  if (!pipe_of(bio)->take(std::as_bytes(std::span(data, bytes)))) {
    BIO_set_retry_write(bio);
    return 0;
  }
  *taken = bytes;
  return 1;
}

int bio_read(BIO* bio, char* data, std::size_t bytes, std::size_t* given) {
  BIO_clear_retry_flags(bio);
  *given = pipe_of(bio)->give(std::as_writable_bytes(std::span(data, bytes)));
  if (*given > 0) return 1;
  if (pipe_of(bio)->end() == Io::State::kBlocked) BIO_set_retry_read(bio);
  return 0;
}

long bio_control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return pipe_of(bio)->end() == Io::State::kClosed ? 1 : 0;
  return 0;
}

int bio_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

// Created once and then constant.
const BIO_METHOD* bio_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tally");
    if (made == nullptr) return made;
    BIO_meth_set_write_ex(made, &bio_write);
    BIO_meth_set_read_ex(made, &bio_read);
    BIO_meth_set_ctrl(made, &bio_control);
    BIO_meth_set_create(made, &bio_create);
    return made;
  }();
  return method;
}

}  // namespace

TlsPipe::TlsPipe(Socket socket)
    : socket_(std::move(socket)),
      out_(std::make_unique_for_overwrite<std::byte[]>(kOutBytes)),
      in_(std::make_unique_for_overwrite<std::byte[]>(kInBytes)) {}

bio_st* TlsPipe::make_bio() {
  if (bio_method() == nullptr) return nullptr;
  BIO* bio = BIO_new(bio_method());
  if (bio != nullptr) BIO_set_data(bio, this);
  return bio;
}

bool TlsPipe::has_room() const { return pending_bytes() + 2 * kMaxRecordBytes <= kOutBytes; }

void TlsPipe::close_up() {
  std::memmove(out_.get(), out_.get() + out_begin_, pending_bytes());
  out_end_ = pending_bytes();
  out_begin_ = 0;
}

std::byte* TlsPipe::room() {
  if (kOutBytes - out_end_ < kMaxRecordBytes) close_up();
  return out_.get() + out_end_;
}

bool TlsPipe::take(std::span<const std::byte> bytes) {
  if (bytes.size() > kOutBytes - pending_bytes()) return false;
  if (bytes.size() > kOutBytes - out_end_) close_up();
  std::memcpy(out_.get() + out_end_, bytes.data(), bytes.size());
  out_end_ += bytes.size();
  return true;
}

Io TlsPipe::flush() {
  while (pending_bytes() > 0) {
    const ssize_t count =
        ::send(descriptor(), out_.get() + out_begin_, pending_bytes(), MSG_NOSIGNAL);
    if (count >= 0) {
      out_begin_ += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      return ended(errno);
    }
  }
  out_begin_ = out_end_ = 0;
  return {Io::State::kMoved};
}

std::size_t TlsPipe::give(std::span<std::byte> into) {
  if (in_begin_ == in_end_ && !refill()) return 0;
  const std::size_t count = std::min(into.size(), in_end_ - in_begin_);
  std::memcpy(into.data(), in_.get() + in_begin_, count);
  in_begin_ += count;
  return count;
}

Result<std::span<const std::byte>> TlsPipe::next_record() {
  while (true) {
    const std::span<const std::byte> there(in_.get() + in_begin_, in_end_ - in_begin_);
    if (there.size() >= kRecordHeaderBytes) {
      const auto bytes = record_bytes(there.first<kRecordHeaderBytes>());
      if (!bytes) return corrupt("TLS read: not a record");
      if (there.size() >= *bytes) return there.first(*bytes);
    }
    if (!refill()) return std::span<const std::byte>();
  }
}

// Reads more bytes behind the rest in the buffer, which is shorter than a record.
bool TlsPipe::refill() {
  std::memmove(in_.get(), in_.get() + in_begin_, in_end_ - in_begin_);
  in_end_ -= in_begin_;
  in_begin_ = 0;
  while (true) {
    const ssize_t count = ::recv(descriptor(), in_.get() + in_end_, kInBytes - in_end_, 0);
    if (count > 0) {
      in_end_ += static_cast<std::size_t>(count);
      return true;
    }
    if (count == 0) {
      end_ = Io::State::kClosed;
      return false;
    }
    if (errno != EINTR) {
      end_ = ended(errno).state;
      return false;
    }
  }
}

Io TlsPipe::ended(int error_number) {
  if (error_number == EAGAIN || error_number == EWOULDBLOCK) return {Io::State::kBlocked};
  if (means_lost(error_number)) return {Io::State::kClosed};
  error_number_.store(error_number, std::memory_order_relaxed);
  return {Io::State::kFailed};
}

void TlsPipe::shutdown() { ::shutdown(descriptor(), SHUT_WR); }

}  // namespace tally::net
