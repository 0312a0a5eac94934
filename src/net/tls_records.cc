#include "net/tls_records.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <string_view>

#include "base/check.h"

namespace tally::net {
namespace {

constexpr std::size_t kKeyBytes = 16;
constexpr std::size_t kTagBytes = 16;
constexpr std::byte kProtectedType{23};  // in the header of every encrypted record

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

// HKDF-Expand-Label of RFC 8446, section 7.1, with an empty context. Up to 32 bytes come from a
// single round of HKDF-Expand: HMAC(secret, info || 1).
void expand_label(const TrafficSecret& secret, std::string_view label, std::span<std::byte> out) {
  TALLY_CHECK(out.size() <= secret.size());
  std::array<unsigned char, 64> info{};
  std::size_t used = 0;
  const auto put = [&](std::string_view text) {
    for (const char c : text) info[used++] = static_cast<unsigned char>(c);
  };
  info[used++] = 0;
  info[used++] = static_cast<unsigned char>(out.size());
  info[used++] = static_cast<unsigned char>(6 + label.size());
  put("tls13 ");
  put(label);
  info[used++] = 0;  // the context's length
  info[used++] = 1;  // HKDF's round
  TrafficSecret expanded;
  unsigned int expanded_bytes = 0;
  TALLY_CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), info.data(), used,
                   raw(expanded.data()), &expanded_bytes) != nullptr);
  std::copy_n(expanded.begin(), out.size(), out.begin());
  OPENSSL_cleanse(expanded.data(), expanded.size());
}

}  // namespace

std::optional<std::size_t> record_bytes(std::span<const std::byte, kRecordHeaderBytes> header) {
  const std::size_t length =
      std::to_integer<std::size_t>(header[3]) << 8 | std::to_integer<std::size_t>(header[4]);
  const std::size_t bytes = kRecordHeaderBytes + length;
  if (header[0] != kProtectedType || header[1] != std::byte{3} || header[2] != std::byte{3} ||
      length < kRecordTrailerBytes || bytes > kMaxRecordBytes) {
    return std::nullopt;
  }
  return bytes;
}

RecordCipher::RecordCipher(Use use, const TrafficSecret& secret)
    : use_(use), secret_(secret), context_(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free) {
  TALLY_CHECK(context_ != nullptr);
  derive_key();
}

RecordCipher::~RecordCipher() {
  OPENSSL_cleanse(secret_.data(), secret_.size());
  OPENSSL_cleanse(iv_.data(), iv_.size());
}

void RecordCipher::derive_key() {
  std::array<std::byte, kKeyBytes> key;
  expand_label(secret_, "key", key);
  expand_label(secret_, "iv", iv_);
  number_ = 0;
  TALLY_CHECK(EVP_CipherInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, raw(key.data()),
                                nullptr, use_ == Use::kSeal ? 1 : 0) == 1);
  OPENSSL_cleanse(key.data(), key.size());
}

void RecordCipher::renew() {
  TrafficSecret next;
  expand_label(secret_, "traffic upd", next);
  secret_ = next;
  OPENSSL_cleanse(next.data(), next.size());
  derive_key();
}

// The nonce is the record's number, combined with the key's iv (section 5.3); the header is
// authenticated with the payload.
bool RecordCipher::start_record(std::span<const std::byte> header) {
  std::array<std::byte, 12> nonce = iv_;
  for (std::size_t i = 0; i < 8; ++i) {
    nonce[nonce.size() - 1 - i] ^= static_cast<std::byte>(number_ >> (8 * i));
  }
  ++number_;
  int ignored = 0;
  return EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, raw(nonce.data()), -1) == 1 &&
         EVP_CipherUpdate(context_.get(), nullptr, &ignored, raw(header.data()),
                          static_cast<int>(header.size())) == 1;
}

bool RecordCipher::apply(const std::byte* from, std::size_t bytes, std::byte* to) {
  int written = 0;
  return EVP_CipherUpdate(context_.get(), raw(to), &written, raw(from), static_cast<int>(bytes)) ==
             1 &&
         static_cast<std::size_t>(written) == bytes;
}

std::size_t RecordCipher::seal(RecordType type, std::span<const iovec> parts, std::byte* out) {
  std::size_t payload_bytes = 0;
  for (const iovec& part : parts) payload_bytes += part.iov_len;
  TALLY_CHECK(payload_bytes <= kMaxRecordPayloadBytes);
  const std::size_t length = payload_bytes + kRecordTrailerBytes;
  const std::array header{kProtectedType, std::byte{3}, std::byte{3},
                          static_cast<std::byte>(length >> 8), static_cast<std::byte>(length)};
  std::copy(header.begin(), header.end(), out);
  if (!start_record(header)) return 0;
  std::byte* at = out + kRecordHeaderBytes;
  for (const iovec& part : parts) {
    if (!apply(static_cast<const std::byte*>(part.iov_base), part.iov_len, at)) return 0;
    at += part.iov_len;
  }
  const auto type_byte = static_cast<std::byte>(type);
  if (!apply(&type_byte, 1, at)) return 0;
  ++at;
  int ignored = 0;
  if (EVP_CipherFinal_ex(context_.get(), raw(at), &ignored) != 1 ||
      EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, at) != 1) {
    return 0;
  }
  return kRecordHeaderBytes + length;
}

std::optional<RecordType> RecordCipher::open(std::span<const std::byte> record,
                                             std::span<const iovec> parts) {
  TALLY_CHECK(record.size() >= kRecordHeaderBytes + kRecordTrailerBytes);
  if (!start_record(record.first(kRecordHeaderBytes))) return std::nullopt;
  const std::byte* at = record.data() + kRecordHeaderBytes;
  for (const iovec& part : parts) {
    if (!apply(at, part.iov_len, static_cast<std::byte*>(part.iov_base))) return std::nullopt;
    at += part.iov_len;
  }
  TALLY_CHECK(at + kRecordTrailerBytes == record.data() + record.size());
  std::byte type{};
  if (!apply(at, 1, &type)) return std::nullopt;
  std::array<std::byte, kTagBytes> tag;
  std::copy_n(at + 1, tag.size(), tag.begin());
  int ignored = 0;
  if (EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1 ||
      EVP_CipherFinal_ex(context_.get(), raw(tag.data()), &ignored) != 1) {
    return std::nullopt;
  }
  const auto found = static_cast<RecordType>(type);
  const bool known =
      found == RecordType::kAlert || found == RecordType::kHandshake || found == RecordType::kData;
  return known ? std::optional(found) : std::nullopt;
}

}  // namespace tally::net
