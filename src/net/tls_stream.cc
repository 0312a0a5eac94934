#include "net/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/mutex.h"
#include "net/tls_bio.h"
#include "net/tls_psk.h"
#include "net/tls_records.h"

namespace tally::net {
namespace {

// The message that announces a new sending key and asks for none in return (RFC 8446, 4.6.3).
constexpr std::array kKeyUpdate = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1},
                                   std::byte{0}};
// The alert of an orderly end: warning, close_notify.
constexpr std::array kCloseNotify = {std::byte{1}, std::byte{0}};
// Both fit.
constexpr std::size_t kMaxControlBytes = 8;

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
  // Appends up to `bytes` from here on to `taken`, and advances past them. Returns the number of
  // bytes.
  std::size_t take(std::size_t bytes, std::vector<iovec>& taken) {
    const std::size_t wanted = bytes;
    while (!done() && bytes > 0) {
      const std::span<std::byte> part = here().first(std::min(bytes, here().size()));
      taken.push_back({part.data(), part.size()});
      bytes -= part.size();
      advance(part.size());
    }
    return wanted - bytes;
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

// Reading and writing share nothing after the handshake but the socket and the reason of a failure.
class TlsStream final : public Stream {
 public:
  TlsStream(Socket socket, const TlsOptions& options, bool server)
      : renew_key_bytes_(options.renew_key_bytes), server_(server), pipe_(std::move(socket)) {
    exchange_.emplace(options.secret, options.identity);
  }

  // Creates the OpenSSL objects. kExhausted if they cannot be allocated.
  Result<void> open(SSL_CTX* context) {
    ssl_.reset(SSL_new(context));
    BIO* bio = ssl_ == nullptr ? nullptr : pipe_.make_bio();
    if (bio == nullptr) {
      return make_error(ErrorCode::kExhausted, "no memory for a TLS connection");
    }
    SSL_set_bio(ssl_.get(), bio, bio);
    attach(ssl_.get(), &*exchange_);
    if (server_) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_connect_state(ssl_.get());
      // No certificate is valid here: a server that presents one instead of knowing the secret is
      // refused. (On the accepting side, OpenSSL would request client certificates and then refuse
      // every pre-shared key.)
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
    // The alert of a failed handshake tells the peer the reason, so it is sent as well.
    const Io sent = pipe_.flush();
    if (outcome != 1 && error != SSL_ERROR_WANT_READ) return handshake_failure();
    if (sent.state == Io::State::kClosed || sent.state == Io::State::kFailed) return lost();
    if (outcome != 1) return false;
    // Only a handshake that used the secret authenticates the peer.
    if (SSL_session_reused(ssl_.get()) != 1)
      return refused("TLS handshake without the job's secret");
    if (!exchange_->client_secret || !exchange_->server_secret) {
      return system_failure("OpenSSL does not tell the TLS secrets");
    }
    const auto& [seals, opens] = server_
                                     ? std::tie(exchange_->server_secret, exchange_->client_secret)
                                     : std::tie(exchange_->client_secret, exchange_->server_secret);
    sealing_.emplace(RecordCipher::Use::kSeal, *seals);
    opening_.emplace(RecordCipher::Use::kOpen, *opens);
    exchange_.reset();
    ssl_.reset();
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
      sealed_parts_.clear();
      const std::size_t count = at.take(kMaxRecordPayloadBytes, sealed_parts_);
      if (!seal(RecordType::kData, sealed_parts_) || !renew_key(count)) {
        return fail({.code = ErrorCode::kSystem, .message = "TLS write: " + openssl_reason()});
      }
      taken += count;
    }
    const Io io = pipe_.flush();
    if (io.state == Io::State::kClosed || io.state == Io::State::kFailed) return report(io);
    return {taken > 0 ? Io::State::kMoved : Io::State::kBlocked, taken};
  }

  Io read(std::span<const iovec> parts) override {
    std::size_t filled = 0;
    for (Cursor at(parts); !at.done();) {
      const Io io = !rest_.empty() ? read_rest(at) : read_end_ ? *read_end_ : read_record(at);
      filled += io.bytes;
      if (io.state == Io::State::kMoved) continue;
      // Bytes after an altered record must never be read, even if the caller tries again.
      if (io.state != Io::State::kBlocked) read_end_ = io;
      if (filled > 0) break;
      return io;
    }
    return {Io::State::kMoved, filled};
  }

  bool wants_write() const override { return pipe_.pending_bytes() > 0; }
  Io flush() override { return report(pipe_.flush()); }
  void shutdown() override {
    if (established_ && pipe_.has_room()) {
      const iovec alert = part_of(kCloseNotify);
      static_cast<void>(seal(RecordType::kAlert, {&alert, 1}));
    }
    pipe_.flush();
    pipe_.shutdown();
  }
  Error failure() const override {
    MutexLock lock(failure_mutex_);
    return failure_;
  }
  int descriptor() const override { return pipe_.descriptor(); }
  bool authenticated() const override { return established_; }
  // The first message of the client proves the secret by its binder (RFC 8446 section 4.2.11.2).
  // The server goes on, and has keys, only if the binder is right.
  bool showed_secret() const override {
    return established_ || (server_ && exchange_->server_secret.has_value());
  }
  bool encrypted() const override { return true; }

 private:
  // The cipher only reads; iovec has no const.
  static iovec part_of(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }

  bool seal(RecordType type, std::span<const iovec> parts) {
    const std::size_t bytes = sealing_->seal(type, parts, pipe_.room());
    pipe_.append(bytes);
    return bytes > 0;
  }

  // Counts the bytes sealed under the key. The pipe has room for the announcement of a new key.
  bool renew_key(std::size_t sealed_bytes) {
    sealed_bytes_ += sealed_bytes;
    if (sealed_bytes_ < renew_key_bytes_) return true;
    sealed_bytes_ = 0;
    const iovec message = part_of(kKeyUpdate);
    if (!seal(RecordType::kHandshake, {&message, 1})) return false;
    sealing_->renew();
    return true;
  }

  // Decrypts the next record to `at`, and the bytes without room there to rest_. A short record
  // goes to rest_ as a whole, because it may be a control message.
  Io read_record(Cursor& at) {
    const auto record = pipe_.next_record();
    if (!record) return fail(record.error());
    if (record->empty()) return report({pipe_.end()});
    const std::size_t payload = record->size() - kRecordHeaderBytes - kRecordTrailerBytes;
    const bool is_short = payload <= kMaxControlBytes;
    opened_parts_.clear();
    const std::size_t direct = is_short ? 0 : at.take(payload, opened_parts_);
    rest_ = std::span(spill_).first(payload - direct);
    opened_parts_.push_back(part_of(rest_));
    const auto type = opening_->open(*record, opened_parts_);
    pipe_.consume(record->size());
    if (type == RecordType::kData) return {Io::State::kMoved, direct};
    const std::span<const std::byte> control = std::exchange(rest_, {});
    if (!type || !is_short) return fail(corrupt("a record was altered on the way"));
    return take_control(*type, control);
  }

  Io take_control(RecordType type, std::span<const std::byte> message) {
    if (type == RecordType::kHandshake && std::ranges::equal(message, kKeyUpdate)) {
      opening_->renew();
      return {Io::State::kMoved};
    }
    if (type == RecordType::kAlert && std::ranges::equal(message, kCloseNotify)) {
      return {Io::State::kClosed};
    }
    return fail(corrupt("a message that is not part of the protocol"));
  }

  Io read_rest(Cursor& at) {
    const std::size_t count = std::min(rest_.size(), at.here().size());
    std::copy_n(rest_.begin(), count, at.here().begin());
    rest_ = rest_.subspan(count);
    at.advance(count);
    return {Io::State::kMoved, count};
  }

  Io report(Io io) {
    return io.state == Io::State::kFailed ? fail(socket_error("TLS", pipe_.error_number())) : io;
  }

  Io fail(Error error) {
    MutexLock lock(failure_mutex_);
    failure_ = std::move(error);
    return {Io::State::kFailed};
  }

  static Error corrupt(const char* what) { return tally::corrupt("TLS read: {}", what); }

  Error lost() const {
    return make_error(ErrorCode::kPeerLost, "connection closed during the TLS handshake");
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
  Connection ssl_{nullptr, &SSL_free};   // until established
  std::optional<RecordCipher> sealing_;  // from then on
  std::optional<RecordCipher> opening_;
  bool established_ = false;
  std::uint64_t sealed_bytes_ = 0;  // since the key was renewed
  // The rest of a record that did not fit into the last read(); points into spill_.
  std::span<const std::byte> rest_;
  std::array<std::byte, kMaxRecordPayloadBytes> spill_;
  // The parts of the records under way; kept for their memory.
  std::vector<iovec> sealed_parts_;
  std::vector<iovec> opened_parts_;
  std::optional<Io> read_end_;  // how reading ended, for good
  mutable Mutex failure_mutex_;
  Error failure_ TALLY_GUARDED_BY(failure_mutex_);
};

Result<Context> make_context() {
  Context context(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(context.get(), 0) != 1) {
    return system_failure("TLS: " + openssl_reason());
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
    return invalid("TLS identity of {} bytes, 1 to {} allowed", options.identity.size(),
                   kMaxIdentityBytes);
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
