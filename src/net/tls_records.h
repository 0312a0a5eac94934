#pragma once
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

struct evp_cipher_ctx_st;

namespace tally::net {

// The secret that the key of one direction is derived from.
using TrafficSecret = std::array<std::byte, 32>;

enum class RecordType : std::uint8_t { kAlert = 21, kHandshake = 22, kData = 23 };

inline constexpr std::size_t kMaxRecordPayloadBytes = std::size_t{16} << 10;
inline constexpr std::size_t kRecordHeaderBytes = 5;
inline constexpr std::size_t kRecordTrailerBytes = 1 + 16;  // the type and the tag
inline constexpr std::size_t kMaxRecordBytes =
    kRecordHeaderBytes + kMaxRecordPayloadBytes + kRecordTrailerBytes;

// The total size of the record that starts with `header`; empty if it cannot be an encrypted record
// of at most kMaxRecordBytes.
std::optional<std::size_t> record_bytes(std::span<const std::byte, kRecordHeaderBytes> header);

// One direction of the record layer of TLS 1.3 (RFC 8446, section 5) with TLS_AES_128_GCM_SHA256.
// It encrypts directly from the caller's memory into the send buffer, and decrypts from the receive
// buffer into the caller's memory. OpenSSL's own record layer copies every byte twice more on each
// side. Threads: calls must not overlap. The destructor wipes the secrets.
class RecordCipher final {
 public:
  enum class Use { kSeal, kOpen };

  RecordCipher(Use use, const TrafficSecret& secret);
  ~RecordCipher();
  RecordCipher(const RecordCipher&) = delete;
  RecordCipher& operator=(const RecordCipher&) = delete;

  // Writes a record with the bytes of `parts`, at most kMaxRecordPayloadBytes, to `out`, which has
  // room for kMaxRecordBytes. Returns the bytes written; 0 if OpenSSL failed.
  std::size_t seal(RecordType type, std::span<const iovec> parts, std::byte* out);

  // Decrypts a whole record into `parts`, which have exactly the room that its payload needs. They
  // may be used only if open() returns a type: otherwise the record was altered on the way.
  std::optional<RecordType> open(std::span<const std::byte> record, std::span<const iovec> parts);

  // Derives the next key from this one (section 7.2).
  void renew();

 private:
  bool start_record(std::span<const std::byte> header);
  bool apply(const std::byte* from, std::size_t bytes, std::byte* to);
  void derive_key();

  const Use use_;
  TrafficSecret secret_;
  std::array<std::byte, 12> iv_{};
  std::uint64_t number_ = 0;  // of the next record under this key
  std::unique_ptr<evp_cipher_ctx_st, void (*)(evp_cipher_ctx_st*)> context_;
};

}  // namespace tally::net
