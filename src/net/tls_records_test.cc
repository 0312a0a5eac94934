#include "net/tls_records.h"

#include <fcntl.h>
#include <openssl/ssl.h>

#include <chrono>
#include <future>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "net/tls_psk.h"
#include "net/tls_stream.h"

namespace tally::net {
namespace {

Deadline in_time() { return Deadline::after(std::chrono::seconds(20)); }

TrafficSecret some_traffic_secret() {
  TrafficSecret secret;
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::byte>(i * 37);
  return secret;
}

std::vector<std::byte> numbered_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 131 >> 3);
  return bytes;
}

iovec part(std::vector<std::byte>& bytes, std::size_t begin, std::size_t end) {
  return {bytes.data() + begin, end - begin};
}

TEST(RecordCipher, OpensWhatWasSealedWhateverTheParts) {
  RecordCipher seals(RecordCipher::Use::kSeal, some_traffic_secret());
  RecordCipher opens(RecordCipher::Use::kOpen, some_traffic_secret());
  std::vector<std::byte> record(kMaxRecordBytes);
  for (const std::size_t bytes : {0, 1, 15, 16, 17, 4000, 16384}) {
    std::vector<std::byte> sent = numbered_bytes(bytes);
    std::vector<std::byte> heard(bytes);
    const iovec out[] = {part(sent, 0, bytes / 3), part(sent, bytes / 3, bytes)};
    const std::size_t length = seals.seal(RecordType::kData, out, record.data());
    ASSERT_EQ(length, bytes + kRecordHeaderBytes + kRecordTrailerBytes);
    EXPECT_EQ(record_bytes(std::span(record).first<kRecordHeaderBytes>()), length);
    const iovec in[] = {part(heard, 0, bytes / 2), part(heard, bytes / 2, bytes)};
    EXPECT_EQ(opens.open(std::span(record).first(length), in), RecordType::kData);
    EXPECT_TRUE(sent == heard) << bytes;
  }
}

TEST(RecordCipher, RefusesARecordThatWasAlteredRepeatedOrOfAnotherKey) {
  std::vector<std::byte> payload = numbered_bytes(100);
  std::vector<std::byte> record(kMaxRecordBytes);
  const iovec whole = part(payload, 0, 100);
  RecordCipher seals(RecordCipher::Use::kSeal, some_traffic_secret());
  record.resize(seals.seal(RecordType::kData, {&whole, 1}, record.data()));
  for (std::size_t i = 0; i < record.size(); ++i) {
    std::vector<std::byte> altered = record;
    altered[i] ^= std::byte{4};
    RecordCipher opens(RecordCipher::Use::kOpen, some_traffic_secret());
    EXPECT_FALSE(opens.open(altered, {&whole, 1}).has_value()) << i;
  }
  RecordCipher opens(RecordCipher::Use::kOpen, some_traffic_secret());
  EXPECT_TRUE(opens.open(record, {&whole, 1}).has_value());
  EXPECT_FALSE(opens.open(record, {&whole, 1}).has_value());
  RecordCipher renewed(RecordCipher::Use::kOpen, some_traffic_secret());
  renewed.renew();
  EXPECT_FALSE(renewed.open(record, {&whole, 1}).has_value());
}

TEST(RecordCipher, HeaderThatCannotBeOursIsRefused) {
  using Header = std::array<std::byte, kRecordHeaderBytes>;
  const auto header = [](int type, int version, int length) {
    return Header{static_cast<std::byte>(type), std::byte{3}, static_cast<std::byte>(version),
                  static_cast<std::byte>(length >> 8), static_cast<std::byte>(length)};
  };
  EXPECT_EQ(record_bytes(header(23, 3, 17)), 22U);
  EXPECT_EQ(record_bytes(header(23, 3, 16384 + 17)), kMaxRecordBytes);
  EXPECT_FALSE(record_bytes(header(23, 3, 16)).has_value());
  EXPECT_FALSE(record_bytes(header(23, 3, 16384 + 18)).has_value());
  EXPECT_FALSE(record_bytes(header(22, 3, 100)).has_value());
  EXPECT_FALSE(record_bytes(header(23, 4, 100)).has_value());
}

// A server whose records OpenSSL reads and writes. It echoes each message, renews its key after
// each message, and closes the connection when the client does.
void echo_by_openssl(Socket socket, const Secret& secret, std::size_t message_bytes) {
  PskExchange exchange(secret, "openssl");
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_num_tickets(context, 0);
  use_psk(context);
  SSL* ssl = SSL_new(context);
  attach(ssl, &exchange);
  ::fcntl(socket.descriptor(), F_SETFL, 0);
  SSL_set_fd(ssl, socket.descriptor());
  EXPECT_EQ(SSL_accept(ssl), 1);
  std::vector<std::byte> message(message_bytes);
  std::size_t heard = 0;
  for (std::size_t count = 0;
       SSL_read_ex(ssl, message.data() + heard, message.size() - heard, &count) == 1;) {
    heard += count;
    if (heard < message.size()) continue;
    heard = 0;
    EXPECT_EQ(SSL_write_ex(ssl, message.data(), message.size(), &count), 1);
    SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
  }
  EXPECT_EQ(SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
  SSL_shutdown(ssl);
  SSL_free(ssl);
  SSL_CTX_free(context);
}

TEST(RecordCipher, SpeaksTls13WithOpenSsl) {
  Secret secret;
  secret.bytes.fill(std::byte{9});
  auto listener = Listener::bind({.host = "127.0.0.1"});
  ASSERT_TRUE(listener.has_value());
  auto calling = connect(listener->address(), in_time());
  auto called = listener->accept(in_time());
  ASSERT_TRUE(calling.has_value() && called.has_value());

  std::vector<std::byte> message = numbered_bytes(200001);
  auto server =
      std::async(std::launch::async, echo_by_openssl, *std::move(called), secret, message.size());
  auto context =
      TlsContext::make({.secret = secret, .identity = "tally", .renew_key_bytes = 150000});
  auto stream = *(*context)->client(*std::move(calling));
  ASSERT_TRUE(complete_handshake(*stream, in_time()).has_value());
  for (int turn = 0; turn < 5; ++turn) {
    ASSERT_TRUE(write_all(*stream, message, in_time()).has_value());
    std::vector<std::byte> heard(message.size());
    const auto read = read_all(*stream, heard, in_time());
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_TRUE(heard == message);
  }
  stream->shutdown();
  server.get();
  std::byte more{};
  const auto end = read_all(*stream, {&more, 1}, in_time());
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::kPeerLost);
}

}  // namespace
}  // namespace tally::net
