#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tally/deadline.h"
#include "tally/error.h"
#include "tally/job.h"
#include "tally/optimizer.h"
#include "tally/types.h"

// Parameter servers: tables of numbers that many workers push gradients to and pull values from.
//
//   directory    knows the members and which servers have which parts; one per job
//   server       has a share of all tables, and copies of parts of other servers
//   worker       a Client
//
// A table is cut into *parts*, each on a primary server and its backups. Updates, versions and
// replication of a part do not wait for those of another part.
namespace tally::server {

struct DirectoryOptions {
  // HOST:PORT or [V6]:PORT; port 0: any that is free.
  std::string listen = "127.0.0.1:0";
  std::optional<Secret> secret;  // set: TLS 1.3; without one it listens on loopback only
  int servers = 1;               // the job starts when this many have joined
  int replicas = 0;  // copies of each part, with the primary; 0: two, or one with one server
  // The directory removes a server that is silent for this long. It notices the end of a process at
  // once.
  std::chrono::milliseconds silence_limit = std::chrono::seconds(5);
};

// Takes one sentence per event: a server joined, a server or parts were lost.
using EventSink = std::function<void(const std::string& sentence)>;

// Threads: has its own; calls may come from any.
class Directory final {
 public:
  static Result<std::unique_ptr<Directory>> start(const DirectoryOptions& options,
                                                  EventSink on_event = {});
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // HOST:PORT with the real port.
  std::string address() const;

 private:
  class Impl;
  explicit Directory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct ServerOptions {
  std::string directory;               // HOST:PORT
  std::string listen = "127.0.0.1:0";  // for workers and other servers
  std::optional<Secret> secret;
  int threads = 0;                       // 0: as many as there are cores, up to 4
  std::uint64_t memory_limit_bytes = 0;  // of all tables; 0: none
  std::filesystem::path snapshots;       // folder of snapshots; empty: refuses them
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
};

// Threads: has its own; calls may come from any.
class Server final {
 public:
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options,
                                               EventSink on_event = {});
  // Leaves the job: other servers take over its parts.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const;
  // The directory has removed this server, or has ended: it serves no more.
  bool expelled() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

enum class TableKind : std::uint8_t {
  kDense,   // one long vector, in parts of at most 256 KiB
  kSparse,  // 64-bit keys to rows of `dimension` float32; rows are made when first touched
};

struct TableSpec {
  std::string name;  // 1 to 200 bytes
  TableKind kind = TableKind::kDense;
  DataType type = DataType::kFloat32;  // dense: kFloat32 or kFloat64
  std::uint64_t count = 0;             // dense: elements
  std::uint32_t dimension = 0;         // sparse: values of a row, 1 to 4096
  OptimizerSpec optimizer;             // applied by the servers; neither lamb nor lars
  // The words update=, stale= and conflict= of a plan: "update=ssp:3 stale=scale conflict=lock".
  // Others are ignored.
  std::string plan;
  int workers = 1;  // number of workers; rounds begin when all have joined
  std::uint64_t seed = 1;
  double initial_scale = 0;  // sparse: new rows are uniform in +-this, a function of seed and key
  // Dense float32: the codec of pushed gradients, as in a plan ("topk:0.01"); empty: none. With
  // update=bsp the averages for the workers are encoded, too.
  std::string codec;
  std::uint32_t columns = 0;  // with a codec: values of one output of a weight matrix; 0: none
  std::uint64_t first_element = 0;  // with a codec: index of the first element in the model
};

using TableId = std::uint16_t;

// The result of a request, over all its parts.
struct Completion {
  std::uint64_t applied = 0;    // parts that applied it
  std::uint64_t dropped = 0;    // parts that dropped it as too late
  std::uint64_t version = 0;    // lowest version of the parts: number of updates
  std::uint64_t clock = 0;      // lowest clock of all workers
  std::uint64_t staleness = 0;  // highest of the applied ones
};

// The effect of a push.
enum class PushKind : std::uint8_t {
  kGradient,  // by the table's optimizer, when and as its plan says
  kAdd,       // value += pushed, at once, exactly once
  kAssign,    // value = pushed, at once; resets optimizer state
};

struct PushOptions {
  PushKind kind = PushKind::kGradient;
  std::uint64_t clock = 0;    // steps that this worker has finished, this one included
  std::uint64_t version = 0;  // of the values that the gradient was computed at
  double weight = 1;          // number of samples
  double rate = 0.1;          // learning rate; rounds take that of the lowest rank
};

// A pull waits until the part has this version and all workers have this clock.
struct PullOptions {
  std::uint64_t least_version = 0;
  std::uint64_t least_clock = 0;
};

using Ticket = std::uint64_t;

struct ClientOptions {
  std::string directory;  // HOST:PORT
  std::optional<Secret> secret;
  int rank = 0;  // order of sums; a later worker replaces an earlier one of the same rank
  // kAuto: kShm where the server is on this host, else kTls or kTcp.
  TransportKind transport = TransportKind::kAuto;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  // For requests without a deadline.
  std::chrono::milliseconds request_timeout = std::chrono::minutes(5);
  // Limit of unacknowledged bytes per server; the client queues the rest.
  std::size_t in_flight_bytes = std::size_t{64} << 20;
};

// A worker. Requests run concurrently, for each part in the order of their submission. A request
// that a lost server has not acknowledged is sent again to its successor, and is applied exactly
// once. The caller keeps the memory of a request in place and unchanged until wait() has returned.
// Threads: one thread at a time submits; any may wait. Has a thread of its own.
class Client final {
 public:
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options,
                                                 EventSink on_event = {});
  // Leaves the job: other workers do not wait for this one any more.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Makes the table, or finds it if another worker made it. kMismatch if its spec differs.
  Result<TableId> define(const TableSpec& spec, Deadline by);
  std::uint32_t parts(TableId table) const;
  // Elements of a part of a dense table, except the last part.
  std::size_t part_elements(TableId table) const;

  // Zeroed memory that servers on this host use in place. It lives as long as the client.
  Result<std::span<std::byte>> allocate(std::size_t bytes);

  // Dense: parts [first, first + count); the memory has their elements in order.
  struct PartRange {
    TableId table = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  Ticket push(const PartRange& range, const PushOptions& options,
              std::span<const std::byte> gradient);
  Ticket pull(const PartRange& range, const PullOptions& options, std::span<std::byte> values);
  // The values after this push, in one message; `gradient` and `values` may be the same memory.
  Ticket push_pull(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                   std::span<const std::byte> gradient, std::span<std::byte> values);

  // Dense, of a table with a codec: encoded gradients, one message for each part of the range; with
  // weight 0 they may be empty. kCorrupt, with nothing changed, for bytes that are no encoding.
  using Messages = std::span<const std::span<const std::byte>>;
  Ticket push_encoded(const PartRange& range, const PushOptions& options, Messages gradient);
  Ticket push_pull_encoded(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                           Messages gradient, std::span<std::byte> values);
  // The answer for one part: the encoded average that was applied; otherwise the part's values are
  // in `values`.
  struct Average {
    bool is_average = false;
    std::vector<std::byte> bytes;
  };
  // update=bsp: the worker has the values and the state of push.version and receives the average to
  // apply. Where the server cannot send it (it is new, or the part has a later version), the part's
  // values arrive in `values`, which is unchanged otherwise. `averages` has one for each part.
  Ticket push_average(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                      Messages gradient, std::span<std::byte> values, std::span<Average> averages);

  // Sparse: keys in any order, each once, and their rows. A request goes to all parts, so that
  // rounds complete; a worker without gradients pushes no keys.
  Ticket push(TableId table, const PushOptions& options, std::span<const std::uint64_t> keys,
              std::span<const float> rows);
  Ticket pull(TableId table, const PullOptions& options, std::span<const std::uint64_t> keys,
              std::span<float> rows);
  Ticket push_pull(TableId table, const PushOptions& push, const PullOptions& pull,
                   std::span<const std::uint64_t> keys, std::span<const float> gradient,
                   std::span<float> rows);

  // This worker has finished `clock` steps, with or without pushing.
  Ticket clock(TableId table, std::uint64_t clock);

  // Waits until all parts have answered; a push is answered when every copy has it. The memory of
  // the request is the caller's afterwards, also after kTimeout; the error says if a server on this
  // host that does not respond may still use memory of allocate().
  Result<Completion> wait(Ticket ticket, Deadline by);
  Result<Completion> wait(Ticket ticket);
  bool done(Ticket ticket) const;

  // The highest known version of any part: a gradient of an older version may be too late.
  std::uint64_t newest_version(TableId table) const;

  // All-reduce: the sums over all workers of at most 65536 values. It does not wait for workers
  // that leave or die; values that they sent before count.
  Result<std::vector<double>> agree(std::span<const double> values, Deadline by);
  Result<void> barrier(Deadline by);
  // The number of workers and their lowest rank.
  struct Membership {
    int workers = 0;
    int lowest_rank = 0;
  };
  Membership membership() const;

  struct Size {
    std::uint64_t elements = 0;  // dense: elements; sparse: rows
    std::uint64_t bytes = 0;     // of one copy, with the optimizer state
    std::uint64_t updates = 0;   // sum over parts
    std::uint64_t dropped = 0;
    // Number of applied gradients by staleness 0, 1, 2, ...; the last bin: that or more.
    std::vector<std::uint64_t> staleness;
  };
  Result<Size> size(TableId table, Deadline by);

  // Writes all tables to a new folder in the `snapshots` folder of every server. Each part is
  // consistent; a barrier before and after makes all parts consistent. Other requests continue.
  Result<std::filesystem::path> snapshot(const std::string& name, Deadline by);
  // Restores all tables of a snapshot, or those in `only`; they must be defined. The number of
  // servers may differ. Other workers must not push meanwhile.
  Result<void> restore(const std::filesystem::path& snapshot, Deadline by,
                       const std::vector<std::string>& only = {});

  // Dense, for checkpoints: the arrays of the optimizer state, in the layout of the values. With
  // update=bsp and a codec with feedback (keeps_residual()) the array after the last is the
  // residual of the averages.
  bool keeps_residual(TableId table) const;
  Result<void> read_state(const PartRange& range, int array, std::span<std::byte> state,
                          Deadline by);
  // Restores state arrays and the number of updates.
  Result<void> write_state(const PartRange& range, int array, std::span<const std::byte> state,
                           Deadline by);
  Result<void> set_version(TableId table, std::uint64_t version, Deadline by);

  // Bytes over all links of this client; shared memory does not count.
  struct Traffic {
    std::uint64_t bytes_sent = 0;
    std::uint64_t bytes_received = 0;
  };
  Traffic traffic() const;

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tally::server
