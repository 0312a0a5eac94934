#include "net/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "net/tls_bio.h"
#include "net/tls_psk.h"

namespace tally::net {
namespace {

constexpr std::size_t kRecordBytes = std::size_t{16} << 10;

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Connection = std::unique_ptr<SSL, decltype(&SSL_free)>;

Error refused(std::string message) {
  return Error{.code = ErrorCode::kRefused, .message = std::move(message)};
}

std::string openssl_reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "unknown reason" : reason;
}

// A position in a list of parts.
class Cursor final {
 public:
  explicit Cursor(std::span<const iovec> parts) : parts_(parts) { skip_empty(); }

  bool done() const { return parts_.empty(); }
  std::span<std::byte> here() const {
    return {static_cast<std::byte*>(parts_.front().iov_base) + within_,
            parts_.front().iov_len - within_};
  }
  void advance(std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t count = std::min(bytes, here().size());
      within_ += count;
      bytes -= count;
      skip_empty();
    }
  }

 private:
  void skip_empty() {
    while (!parts_.empty() && within_ == parts_.front().iov_len) {
      parts_ = parts_.subspan(1);
      within_ = 0;
    }
  }
  std::span<const iovec> parts_;
  std::size_t within_ = 0;
};

class TlsStream final : public Stream {
 public:
  TlsStream(Socket socket, const TlsOptions& options, bool server)
      : renew_key_bytes_(options.renew_key_bytes), server_(server), pipe_(std::move(socket)) {
    exchange_.emplace(options.secret, options.identity);
  }

  // Whatever the system cannot give while setting up.
  Result<void> open(SSL_CTX* context) {
    ssl_.reset(SSL_new(context));
    BIO* bio = ssl_ == nullptr ? nullptr : pipe_.make_bio();
    if (bio == nullptr) {
      return Error{.code = ErrorCode::kExhausted, .message = "no memory for a TLS connection"};
    }
    SSL_set_bio(ssl_.get(), bio, bio);
    attach(ssl_.get(), &*exchange_);
    if (server_) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_connect_state(ssl_.get());
      // No certificate is ever good: a server that shows one instead of knowing the secret is
      // refused. (On the accepting side OpenSSL takes this for a wish for client certificates, and
      // then refuses every pre-shared key.)
      SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
    }
    return {};
  }

  std::string claimed_identity() const override {
    return exchange_ ? exchange_->claimed : std::string();
  }

  Result<bool> handshake() override {
    if (established_) return true;
    ERR_clear_error();
    const int outcome = SSL_do_handshake(ssl_.get());
    const int error = SSL_get_error(ssl_.get(), outcome);
    // The last words of a failed handshake tell the peer why: they go out as well.
    const Io sent = pipe_.flush();
    if (outcome != 1 && error != SSL_ERROR_WANT_READ) return handshake_failure();
    if (sent.state == Io::State::kClosed || sent.state == Io::State::kFailed) return lost();
    if (outcome != 1) return false;
    // Only a handshake that used the secret proves anything.
    if (SSL_session_reused(ssl_.get()) != 1)
      return refused("TLS handshake without the job's secret");
    exchange_.reset();
    SSL_set_app_data(ssl_.get(), nullptr);
    established_ = true;
    return true;
  }

  Io write(std::span<const iovec> parts) override {
    std::size_t taken = 0;
    for (Cursor at(parts); !at.done();) {
      if (!pipe_.has_room()) {
        const Io io = pipe_.flush();
        if (io.state == Io::State::kBlocked && !pipe_.has_room()) break;
        if (io.state == Io::State::kClosed || io.state == Io::State::kFailed) return report(io);
      }
      const std::size_t count = seal(at);
      if (count == 0) return {Io::State::kFailed};
      at.advance(count);
      taken += count;
    }
    const Io io = pipe_.flush();
    if (io.state == Io::State::kClosed || io.state == Io::State::kFailed) return report(io);
    return {taken > 0 ? Io::State::kMoved : Io::State::kBlocked, taken};
  }

  Io read(std::span<const iovec> parts) override {
    std::size_t filled = 0;
    for (Cursor at(parts); !at.done();) {
      std::size_t count = 0;
      ERR_clear_error();
      const int outcome = SSL_read_ex(ssl_.get(), at.here().data(), at.here().size(), &count);
      if (outcome != 1) {
        if (filled > 0) break;
        return read_ended(SSL_get_error(ssl_.get(), outcome));
      }
      at.advance(count);
      filled += count;
    }
    return {Io::State::kMoved, filled};
  }

  bool wants_write() const override { return pipe_.pending_bytes() > 0; }
  Io flush() override { return report(pipe_.flush()); }
  void shutdown() override {
    ERR_clear_error();
    if (established_) SSL_shutdown(ssl_.get());
    pipe_.flush();
    pipe_.shutdown();
  }
  Error failure() const override { return failure_; }
  int descriptor() const override { return pipe_.descriptor(); }
  bool authenticated() const override { return established_; }
  bool encrypted() const override { return established_; }

 private:
  // Encrypts up to one record from `at`; returns how many bytes, 0 if OpenSSL failed. Short parts
  // share a record: a record costs 22 bytes and a pass through the cipher's setup.
  std::size_t seal(Cursor at) {
    std::span<const std::byte> record = at.here().first(std::min(at.here().size(), kRecordBytes));
    if (record.size() < kRecordBytes) record = gather(at);
    if ((sealed_bytes_ += record.size()) >= renew_key_bytes_) {
      sealed_bytes_ = 0;
      SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    std::size_t count = 0;
    ERR_clear_error();
    if (SSL_write_ex(ssl_.get(), record.data(), record.size(), &count) == 1) return count;
    failure_ = Error{.code = ErrorCode::kSystem, .message = "TLS write: " + openssl_reason()};
    return 0;
  }

  std::span<const std::byte> gather(Cursor at) {
    std::size_t filled = 0;
    while (!at.done() && filled < kRecordBytes) {
      const std::size_t count = std::min(at.here().size(), kRecordBytes - filled);
      std::memcpy(gathered_.data() + filled, at.here().data(), count);
      filled += count;
      at.advance(count);
    }
    return {gathered_.data(), filled};
  }

  Io report(Io io) {
    if (io.state == Io::State::kFailed) failure_ = socket_error("TLS", pipe_.error_number());
    return io;
  }

  Io read_ended(int error) {
    if (error == SSL_ERROR_WANT_READ) return {Io::State::kBlocked};
    if (error == SSL_ERROR_ZERO_RETURN) return {Io::State::kClosed};
    // A connection that ends without a TLS goodbye has closed as far as bytes go; whether its peer
    // was done is told by the frames.
    if (pipe_.end() != Io::State::kBlocked) return report({pipe_.end()});
    failure_ = Error{.code = ErrorCode::kCorrupt, .message = "TLS read: " + openssl_reason()};
    return {Io::State::kFailed};
  }

  Error lost() const {
    return Error{.code = ErrorCode::kPeerLost,
                 .message = "connection closed during the TLS handshake"};
  }

  Error handshake_failure() {
    const int reason = ERR_GET_REASON(ERR_peek_error());
    const std::string who = exchange_->claimed.empty() ? "peer" : "'" + exchange_->claimed + "'";
    switch (reason) {
      case SSL_R_BINDER_DOES_NOT_VERIFY:
        return refused(fmt::format("{} has another secret: it does not match this job's", who));
      case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
        return refused("the peer refuses our secret: it does not match the one there");
      case SSL_R_WRONG_VERSION_NUMBER:
      case SSL_R_HTTP_REQUEST:
        return refused("the peer does not speak TLS");
      default:
        break;
    }
    if (pipe_.end() != Io::State::kBlocked) return lost();
    return refused(fmt::format("TLS handshake with {}: {}", who, openssl_reason()));
  }

  const std::uint64_t renew_key_bytes_;
  const bool server_;
  TlsPipe pipe_;                         // outlives ssl_, whose BIO points to it
  std::optional<PskExchange> exchange_;  // until established
  Connection ssl_{nullptr, &SSL_free};
  bool established_ = false;
  std::uint64_t sealed_bytes_ = 0;  // since the key was renewed
  std::array<std::byte, kRecordBytes> gathered_;
  Error failure_;
};

Result<Context> make_context() {
  Context context(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(context.get(), 0) != 1) {
    return Error{.code = ErrorCode::kSystem, .message = "TLS: " + openssl_reason()};
  }
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  use_psk(context.get());
  return context;
}

}  // namespace

class TlsContext::Impl final {
 public:
  Impl(TlsOptions options, Context context)
      : options_(std::move(options)), context_(std::move(context)) {}
  ~Impl() { OPENSSL_cleanse(options_.secret.bytes.data(), options_.secret.bytes.size()); }

  Result<std::unique_ptr<Stream>> stream(Socket socket, bool server) const {
    auto stream = std::make_unique<TlsStream>(std::move(socket), options_, server);
    TALLY_TRY(stream->open(context_.get()));
    return std::unique_ptr<Stream>(std::move(stream));
  }

 private:
  TlsOptions options_;
  Context context_;
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::unique_ptr<TlsContext>> TlsContext::make(TlsOptions options) {
  if (options.identity.empty() || options.identity.size() > kMaxIdentityBytes) {
    return Error{.code = ErrorCode::kInvalid,
                 .message = fmt::format("TLS identity of {} bytes, 1 to {} allowed",
                                        options.identity.size(), kMaxIdentityBytes)};
  }
  TALLY_TRY(Context context, make_context());
  auto impl = std::make_unique<Impl>(std::move(options), std::move(context));
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(impl)));
}

Result<std::unique_ptr<Stream>> TlsContext::client(Socket socket) const {
  return impl_->stream(std::move(socket), false);
}
Result<std::unique_ptr<Stream>> TlsContext::server(Socket socket) const {
  return impl_->stream(std::move(socket), true);
}

}  // namespace tally::net
