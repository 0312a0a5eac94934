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

// Payloads between workers and servers, other than those of pushes and pulls:
//   kDefine       request: TableSpec
//   kSize         answer: Size of the parts that the server is primary of
//   kSnapshot     by push_kind. kWriteSnapshot: the name; answer: the server's files.
//                 kPublishSnapshot, after all servers have answered: SnapshotPublication; answer:
//                 the folder. kDropSnapshot, after a server has failed: the name; answer: empty
//   kRestore      request: SnapshotRestoration
//   kAgree        request: f64[count], `clock` the round; answer kDone: the sums, `version` the
//                 round; kDropped: empty, that round is over and `version` is the current one
//   kMeasure      `version` the round; request: f64 factor; answer: f64[4], by the first number.
//                 kComplete: squares of values, squares of the gradient times the factor (or of
//                 lamb's direction), 0. kFinished, kDiscarded: factor, norm of values and norm of
//                 the gradient of the call that finished the round. kSkipped: zeros; the part went
//                 on without such a call
//   kFinish       `version` the round, `least_version` the next; request: f64[3], factor, norm of
//                 values, norm of the gradient (or direction), of the whole table; answer: the
//                 numbers that the part has used, perhaps those of another worker's call, as in the
//                 answer to kMeasure; never kComplete
//   any, kLost    answer: the name of the newest snapshot, or empty
//   any, kRefused answer: the Error, as wire::encode_error() writes it

inline constexpr std::size_t kMaxAgreeValues = 65536;
inline constexpr std::size_t kMaxTextBytes = 4096;

// The first number of an answer to kMeasure.
inline constexpr double kComplete = 0;
inline constexpr double kFinished = 1;
inline constexpr double kDiscarded = 2;
inline constexpr double kSkipped = 3;

inline constexpr std::uint8_t kWriteSnapshot = 0;
inline constexpr std::uint8_t kPublishSnapshot = 1;
inline constexpr std::uint8_t kDropSnapshot = 2;
struct SnapshotPublication {
  std::string name;
  std::vector<SnapshotFile> files;
};
std::vector<std::byte> encode(const SnapshotPublication& publication);
Result<SnapshotPublication> decode_publication(std::span<const std::byte> bytes);

struct SnapshotRestoration {
  std::string folder;
  std::vector<std::string> only;  // names of tables; empty: all
};
std::vector<std::byte> encode(const SnapshotRestoration& restoration);
// kCorrupt for texts that decode_text() refuses.
Result<SnapshotRestoration> decode_restoration(std::span<const std::byte> bytes);

// A table's number: its name's FNV-1a hash folded to 16 bits, never 0xFFFF.
TableId table_id(std::string_view name);

std::vector<std::byte> encode(const Client::Size& size);
// kCorrupt for anything that encode() would not make.
Result<Client::Size> decode_size(std::span<const std::byte> bytes);
// sum += more.
void add(const Client::Size& more, Client::Size& sum);

std::vector<std::byte> encode(std::span<const double> values);
Result<std::vector<double>> decode_values(std::span<const std::byte> bytes);

// The error of a refusal; kCorrupt for bytes that are none.
Error decode_refusal(std::span<const std::byte> bytes);

std::vector<std::byte> encode_text(std::string_view text);
// kCorrupt for more than kMaxTextBytes, and for control characters: the text may be displayed.
Result<std::string> decode_text(std::span<const std::byte> bytes);

}  // namespace tally::server
