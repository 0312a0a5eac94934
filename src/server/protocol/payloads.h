#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/snapshot/snapshot.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

// Payloads that workers and servers exchange, but for those of pushes and pulls:
//   kDefine               request: TableSpec
//   kSize                 answer: Size, of the parts that the server is primary of
//   kSnapshot             request: the name as text; answer: the server's SnapshotFile. Then, when
//   all servers have answered, with
//                         push_kind kPublishSnapshot, a SnapshotPublication; answer: the folder as
//                         text. Or, where a server has failed, with kDropSnapshot, the name as
//                         text; answer: nothing
//   kRestore              request: SnapshotRestoration
//   kAgree                request: f64[count], `clock` the round's number; answer kDone: the sums,
//   `version` the round's
//                         number; kDropped, empty: that round is over, `version` is the one that is
//                         gathered now
//   any, with kLost       answer: the newest snapshot's name as text, or nothing
//   any, with kRefused    answer: the Error, as wire::encode_error() lays it out

inline constexpr std::size_t kMaxAgreeValues = 65536;
inline constexpr std::size_t kMaxTextBytes = 4096;

inline constexpr std::uint8_t kWriteSnapshot = 0;
inline constexpr std::uint8_t kPublishSnapshot = 1;
inline constexpr std::uint8_t kDropSnapshot = 2;
// All servers have written their files.
struct SnapshotPublication {
  std::string name;
  std::vector<SnapshotFile> files;
};
std::vector<std::byte> encode(const SnapshotPublication& publication);
Result<SnapshotPublication> decode_publication(std::span<const std::byte> bytes);

struct SnapshotRestoration {
  std::string folder;
  std::vector<std::string> only;  // names of tables; none: all that it has
};
std::vector<std::byte> encode(const SnapshotRestoration& restoration);
// kCorrupt for texts that decode_text() would not take.
Result<SnapshotRestoration> decode_restoration(std::span<const std::byte> bytes);

// A table's number: its name's FNV-1a hash folded to 16 bits, never 0xFFFF.
TableId table_id(std::string_view name);

std::vector<std::byte> encode(const Client::Size& size);
// kCorrupt for anything that encode() would not make.
Result<Client::Size> decode_size(std::span<const std::byte> bytes);
// What two servers have together.
void add(const Client::Size& more, Client::Size& sum);

std::vector<std::byte> encode(std::span<const double> values);
Result<std::vector<double>> decode_values(std::span<const std::byte> bytes);

std::vector<std::byte> encode_text(std::string_view text);
// At most kMaxTextBytes, without control characters: it comes from outside and may be shown.
Result<std::string> decode_text(std::span<const std::byte> bytes);

}  // namespace tally::server
