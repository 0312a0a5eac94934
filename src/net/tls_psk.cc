#include "net/tls_psk.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>

namespace tally::net {
namespace {

// TLS_AES_128_GCM_SHA256: its hash fits a 32-byte key, and its cipher is the fastest one on
// processors with AES instructions.
constexpr std::array<unsigned char, 2> kCipherId = {0x13, 0x01};

using Session = std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)>;

// The secret as a session, which is how OpenSSL takes an external key; nullptr if out of memory.
SSL_SESSION* session_from(SSL* connection, const Secret& secret) {
  Session session(SSL_SESSION_new(), &SSL_SESSION_free);
  const SSL_CIPHER* cipher = SSL_CIPHER_find(connection, kCipherId.data());
  if (session == nullptr || cipher == nullptr) return nullptr;
  const auto* key = reinterpret_cast<const unsigned char*>(secret.bytes.data());
  if (SSL_SESSION_set1_master_key(session.get(), key, secret.bytes.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return session.release();
}

PskExchange* exchange_of(SSL* connection) {
  return static_cast<PskExchange*>(SSL_get_app_data(connection));
}

int offer_psk(SSL* connection, const EVP_MD* /*hash*/, const unsigned char** identity,
              std::size_t* identity_bytes, SSL_SESSION** session) {
  PskExchange* exchange = exchange_of(connection);
  *session = session_from(connection, exchange->secret);
  if (*session == nullptr) return 0;
  *identity = reinterpret_cast<const unsigned char*>(exchange->identity.data());
  *identity_bytes = exchange->identity.size();
  return 1;
}

// The identity is unproven and only used in messages; OpenSSL next checks the binder, which proves
// that the peer knows the secret.
int accept_psk(SSL* connection, const unsigned char* identity, std::size_t identity_bytes,
               SSL_SESSION** session) {
  PskExchange* exchange = exchange_of(connection);
  exchange->claimed.assign(reinterpret_cast<const char*>(identity),
                           std::min(identity_bytes, kMaxIdentityBytes));
  std::replace_if(
      exchange->claimed.begin(), exchange->claimed.end(),
      [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  *session = session_from(connection, exchange->secret);
  return *session == nullptr ? 0 : 1;
}

// The secret at the end of a line "LABEL CLIENT_RANDOM SECRET", both numbers hexadecimal.
std::optional<TrafficSecret> secret_in(std::string_view line) {
  TrafficSecret secret;
  const std::size_t begin = line.rfind(' ') + 1;
  if (line.size() - begin != 2 * secret.size()) return std::nullopt;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char* digits = line.data() + begin + 2 * i;
    std::uint8_t value = 0;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
    secret[i] = std::byte{value};
  }
  return secret;
}

// OpenSSL tells the secrets of a connection in the form of a key log; this is its only way.
void note_secret(const SSL* connection, const char* text) {
  PskExchange* exchange = exchange_of(const_cast<SSL*>(connection));
  if (exchange == nullptr) return;
  const std::string_view line(text);
  if (line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) exchange->client_secret = secret_in(line);
  if (line.starts_with("SERVER_TRAFFIC_SECRET_0 ")) exchange->server_secret = secret_in(line);
}

}  // namespace

PskExchange::~PskExchange() {
  OPENSSL_cleanse(secret.bytes.data(), secret.bytes.size());
  for (auto* learned : {&client_secret, &server_secret}) {
    if (*learned) OPENSSL_cleanse((*learned)->data(), (*learned)->size());
  }
}

void use_psk(ssl_ctx_st* context) {
  SSL_CTX_set_psk_use_session_callback(context, &offer_psk);
  SSL_CTX_set_psk_find_session_callback(context, &accept_psk);
  SSL_CTX_set_keylog_callback(context, &note_secret);
}

void attach(ssl_st* connection, PskExchange* exchange) { SSL_set_app_data(connection, exchange); }

}  // namespace tally::net
