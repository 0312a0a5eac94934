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

// Parameter servers: tables of numbers that workers push gradients to and pull values from.
//
//   directory    keeps the list of members and the placement of all parts; one per job
//   server       stores a share of all tables, and copies of parts of other servers
//   worker       a Client
//
// A table is split into *parts*, each on a primary server and its backups. Each part has its own
// updates, versions and replication, and does not wait for other parts.
namespace tally::server {

struct DirectoryOptions {
  // HOST:PORT or [V6]:PORT; port 0: any free port.
  std::string listen = "127.0.0.1:0";
  std::optional<Secret> secret;  // set: TLS 1.3; unset: the directory listens on loopback only
  int servers = 1;               // number of servers that must join before the job starts
  int replicas = 0;  // copies of each part, primary included; 0: 2, or 1 with a single server
  // The directory removes servers and workers that are silent for this long. It detects the end of
  // a process immediately. Zero: 5 seconds, and never while the process lives on this host: the job
  // waits for a stopped or starved process, and for a server at most `failover_limit` if other
  // servers have all its parts.
  std::chrono::milliseconds silence_limit{};
  // Taking over costs no data, but the parts have one copy less then: the default is long for a
  // busy machine, and short for a worker that waits (ClientOptions::request_timeout).
  std::chrono::milliseconds failover_limit = std::chrono::seconds(30);
};

// Receives one sentence per event: a server joined, a server was lost, parts were lost.
using EventSink = std::function<void(const std::string& sentence)>;

// Threads: runs its own threads; any thread may call.
class Directory final {
 public:
  static Result<std::unique_ptr<Directory>> start(const DirectoryOptions& options,
                                                  EventSink on_event = {});
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // HOST:PORT with the actual port.
  std::string address() const;
  // The number in messages of the server that joined from this process of the host; 0: none.
  std::uint32_t server_of(std::int64_t pid) const;

 private:
  class Impl;
  explicit Directory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct ServerOptions {
  std::string directory;               // HOST:PORT
  std::string listen = "127.0.0.1:0";  // for workers and other servers
  std::optional<Secret> secret;
  int threads = 0;                       // 0: the number of cores, at most 4
  std::uint64_t memory_limit_bytes = 0;  // of all tables; 0: no limit
  std::filesystem::path snapshots;       // folder for snapshots; empty: the server refuses them
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
};

// Threads: runs its own threads; any thread may call.
class Server final {
 public:
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options,
                                               EventSink on_event = {});
  // Leaves the job. Other servers take over its parts.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const;
  // True if the directory has removed this server or has ended. The server then serves no requests.
  bool expelled() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

enum class TableKind : std::uint8_t {
  kDense,   // one long vector, in parts of at most 256 KiB
  kSparse,  // maps 64-bit keys to rows of `dimension` float32; the first access creates a row
};

struct TableSpec {
  std::string name;  // 1 to 200 bytes
  TableKind kind = TableKind::kDense;
  DataType type = DataType::kFloat32;  // dense: kFloat32 or kFloat64
  std::uint64_t count = 0;             // dense: elements
  std::uint32_t dimension = 0;         // sparse: values per row, 1 to 4096
  OptimizerSpec optimizer;             // the servers apply it; lamb and lars need `measured`
  // The words update=, stale= and conflict= of a plan: "update=ssp:3 stale=scale conflict=lock".
  // Other words are ignored.
  std::string plan;
  int workers = 1;  // rounds start when this many workers have joined
  std::uint64_t seed = 1;
  double initial_scale = 0;  // sparse: new rows are uniform in +-this, derived from seed and key
  // Dense float32: the codec of pushed gradients, as in a plan ("topk:0.01"); empty: none. With
  // update=bsp the servers also encode the averages for the workers.
  std::string codec;
  std::uint32_t columns = 0;        // with a codec: values per output of a weight matrix; 0: none
  std::uint64_t first_element = 0;  // with a codec: index of the first element in the model
  // With update=bsp, backup or subset: a complete round is applied when a worker has called
  // finish(), so that workers can add up the results of measure() over all parts first.
  bool measured = false;
  double clip_value = 0;  // with `measured`: limit of each element of the mean gradient; 0: none
};

using TableId = std::uint16_t;

// The result of a request over all its parts.
struct Completion {
  std::uint64_t applied = 0;                      // parts that applied the request
  std::uint64_t dropped = 0;                      // parts that dropped it as stale
  std::vector<std::uint32_t> dropped_parts = {};  // their numbers, in the order of the answers
  std::uint64_t version = 0;                      // lowest version (number of updates) of the parts
  std::uint64_t clock = 0;                        // lowest clock of all workers
  std::uint64_t staleness = 0;                    // highest staleness of the applied gradients
};

// The effect of a push.
enum class PushKind : std::uint8_t {
  kGradient,  // applied by the table's optimizer, as its plan says
  kAdd,       // value += pushed, immediately and exactly once
  kAssign,    // value = pushed, immediately; resets the optimizer state
  // As kGradient, on a table with a codec: the message is plain float32 (a codec's warm-up).
  kPlainGradient,
};

struct PushOptions {
  PushKind kind = PushKind::kGradient;
  std::uint64_t clock = 0;  // finished steps of this worker, this one included
  // Completion::version of the pull that the gradient was computed at. With rounds (bsp, backup,
  // subset, kbatch) the servers drop a gradient of an older version.
  std::uint64_t version = 0;
  double weight = 1;  // number of samples
  // Learning rate; unset: that of the table's optimizer. A round uses that of the lowest rank.
  std::optional<double> rate = {};
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
  int rank = 0;  // order of summation; a new worker replaces an earlier one of the same rank
  // kAuto: kShm if the server is on this host, else kTls with a secret or kTcp.
  TransportKind transport = TransportKind::kAuto;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  // For requests without a deadline.
  std::chrono::milliseconds request_timeout = std::chrono::minutes(5);
  // Limit of unacknowledged bytes per server; the client queues the rest.
  std::size_t in_flight_bytes = std::size_t{64} << 20;
};

// A worker. Requests run concurrently; each part processes them in the order of submission. If a
// server is lost, the client sends its unacknowledged requests to the successor, which applies each
// exactly once. The caller keeps the memory of a request in place and unchanged until wait()
// returns.
// Threads: one thread at a time submits requests; any thread may wait. The client runs a thread of
// its own.
class Client final {
 public:
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options,
                                                 EventSink on_event = {});
  // Leaves the job. Other workers no longer wait for this one.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Creates the table, or opens it if another worker created it. Returns kMismatch if the spec
  // differs.
  Result<TableId> define(const TableSpec& spec, Deadline by);
  std::uint32_t parts(TableId table) const;
  // Elements per part of a dense table; the last part may have fewer.
  std::size_t part_elements(TableId table) const;

  // Allocates zeroed memory that servers on this host use without a copy. It is valid as long as
  // the client.
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
  // Pushes and then pulls the updated values in one message. `gradient` and `values` may be the
  // same memory.
  Ticket push_pull(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                   std::span<const std::byte> gradient, std::span<std::byte> values);

  // Dense tables with a codec: encoded gradients, one message per part of the range; with weight 0
  // they may be empty. Returns kCorrupt, with nothing changed, if bytes are not a valid encoding.
  using Messages = std::span<const std::span<const std::byte>>;
  Ticket push_encoded(const PartRange& range, const PushOptions& options, Messages gradient);
  Ticket push_pull_encoded(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                           Messages gradient, std::span<std::byte> values);
  // The answer for one part: the encoded average that was applied. If is_average is false, the
  // part's values are in `values` instead.
  struct Average {
    bool is_average = false;
    std::vector<std::byte> bytes;
  };
  // update=bsp: the worker has the values and the optimizer state of push.version, and receives the
  // average to apply. If the server cannot send the average (it is new, or the part has a later
  // version), it sends the part's values, which the client writes to `values`; otherwise `values`
  // is unchanged. `averages` has one element per part.
  Ticket push_average(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                      Messages gradient, std::span<std::byte> values, std::span<Average> averages);

  // Tables with TableSpec::measured: the state of one part's round of a version. A round that is
  // not finished has sums of squares over its elements. A round that another worker has finished
  // has the options of that call instead. A part that has a later version without such a call has
  // skipped the round: no worker had a gradient for it, or the round is several versions old.
  // Parts of one table may differ in this.
  struct FinishOptions {
    std::uint64_t version = 0;  // of the round
    double factor = 1;          // of the mean gradient: clipping by norm
    // Of the whole table, for lamb and lars: the norms of the values, and of the mean gradient
    // times the factor (lars) or of the direction (lamb).
    double value_norm = 0;
    double gradient_norm = 0;
    bool discards = false;  // the round changes nothing but the version
  };
  struct Measured {
    double value_squares = 0;
    double gradient_squares = 0;
    std::optional<FinishOptions> finished = {};
    bool skipped = false;  // the part has no numbers for this round
  };
  struct MeasureOptions {
    std::uint64_t version = 0;  // of the round
    double factor = 1;          // of the mean gradient
    bool direction = false;     // lamb: squares of its direction in place of the gradient's
  };
  // Waits until the round is complete in all parts. `parts` has one element per part.
  Ticket measure(TableId table, const MeasureOptions& options, std::span<Measured> parts);
  // Applies the round, unless another worker has done so. All workers of the round call it, so that
  // the round is applied if one of them lives on. `parts` has one element per part, and tells how
  // the part ended the round: `finished` has the options of the first call, perhaps of another
  // worker, or the part has `skipped` it. After a server is lost, workers may pass different
  // options. A worker that applies averages itself must use `parts`.
  Ticket finish(TableId table, const FinishOptions& options, std::span<Measured> parts);

  // Sparse tables: keys in any order, and their rows. The keys of a push are distinct: add the rows
  // of a repeated key first. Each request is sent to all parts, so that rounds complete; a worker
  // without gradients pushes no keys. Both make missing rows. A part that has no memory for its
  // rows changes nothing and returns kExhausted; other parts may have applied their share of the
  // push, and the message has their number. A pull changes no values: after a pull of all its keys
  // a push needs no memory.
  Ticket push(TableId table, const PushOptions& options, std::span<const std::uint64_t> keys,
              std::span<const float> rows);
  Ticket pull(TableId table, const PullOptions& options, std::span<const std::uint64_t> keys,
              std::span<float> rows);
  Ticket push_pull(TableId table, const PushOptions& push, const PullOptions& pull,
                   std::span<const std::uint64_t> keys, std::span<const float> gradient,
                   std::span<float> rows);

  // Reports that this worker has finished `clock` steps, with or without a push.
  Ticket clock(TableId table, std::uint64_t clock);

  // Waits until all parts have answered. A part answers a push when every copy has received it.
  // Afterwards the memory of the request belongs to the caller again, also after kTimeout. The
  // error says if an unresponsive server on this host may still use memory from allocate().
  Result<Completion> wait(Ticket ticket, Deadline by);
  Result<Completion> wait(Ticket ticket);
  bool done(Ticket ticket) const;

  // The highest known version of any part. A gradient of an older version may be stale.
  std::uint64_t newest_version(TableId table) const;

  // All-reduce over all workers: returns the sums of up to 65536 values. It does not wait for
  // workers that leave or die; values that they have already sent count.
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
    std::uint64_t bytes = 0;     // of one copy, optimizer state included
    std::uint64_t updates = 0;   // sum over all parts
    std::uint64_t dropped = 0;
    // Number of applied gradients with staleness 0, 1, 2, ...; the last bin also counts all higher
    // values.
    std::vector<std::uint64_t> staleness;
  };
  Result<Size> size(TableId table, Deadline by);

  // Writes all tables to a new folder in the `snapshots` folder of every server. Each part is
  // consistent in itself; a barrier before and after makes all parts consistent with each other.
  // Other requests continue meanwhile.
  Result<std::filesystem::path> snapshot(const std::string& name, Deadline by);
  // Restores all tables of a snapshot, or only those in `only`. The tables must be defined; the
  // number of servers may differ. Other workers must not push meanwhile.
  Result<void> restore(const std::filesystem::path& snapshot, Deadline by,
                       const std::vector<std::string>& only = {});

  // Dense tables, for checkpoints: reads one array of the optimizer state, in the layout of the
  // values. With update=bsp and a codec with error feedback (keeps_residual()), one more array
  // follows: the residual of the averages.
  bool keeps_residual(TableId table) const;
  Result<void> read_state(const PartRange& range, int array, std::span<std::byte> state,
                          Deadline by);
  // Restore the state arrays and the number of updates.
  Result<void> write_state(const PartRange& range, int array, std::span<const std::byte> state,
                           Deadline by);
  Result<void> set_version(TableId table, std::uint64_t version, Deadline by);

  // Bytes over all connections of this client; shared memory does not count.
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
