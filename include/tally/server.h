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
//   directory    who serves what; told of servers that come and go. One per job.
//   server       has a share of all tables, and copies of what other servers have
//   worker       a Client
//
// A table is cut into *parts*, each on a primary server and its backups. Everything below is about
// parts: updates, versions and replication of one do not wait for those of another.
namespace tally::server {

struct DirectoryOptions {
  // HOST:PORT or [V6]:PORT; port 0: any that is free.
  std::string listen = "127.0.0.1:0";
  std::optional<Secret> secret;  // set: TLS 1.3; without one it listens on loopback only
  int servers = 1;               // nothing is served before so many have come
  int replicas =
      0;  // copies of each part, primary included; 0: two, or one where there is one server
  // A server that is silent for so long is given up. One whose process ends is noticed at once.
  std::chrono::milliseconds silence_limit = std::chrono::seconds(5);
};

// Something worth a line: a server joined, was lost, parts were lost.
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
  std::string listen = "127.0.0.1:0";  // where workers and other servers reach it
  std::optional<Secret> secret;
  int threads = 0;                       // 0: as many as there are cores, up to 4
  std::uint64_t memory_limit_bytes = 0;  // of all tables; 0: no limit but the machine's
  std::filesystem::path snapshots;       // where snapshots are written; empty: none can be
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
};

// Threads: has its own; calls may come from any.
class Server final {
 public:
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options,
                                               EventSink on_event = {});
  // Leaves: others take its parts over.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const;
  // The directory has given it up, or has ended: it serves no more.
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
  // Of a plan, only update=, stale= and conflict= are looked at: "update=ssp:3 stale=scale
  // conflict=lock".
  std::string plan;
  int workers = 1;  // how many take part; rounds begin when so many have come
  std::uint64_t seed = 1;
  double initial_scale = 0;  // sparse: new rows are uniform in +- this, by seed and key alone
  // Dense float32: how gradients that are pushed are encoded, as in a plan ("topk:0.01"), part by
  // part; empty: they are not. With update=bsp what goes back to workers is encoded, too.
  std::string codec;
  std::uint32_t columns = 0;  // with a codec: values of one output of a weight matrix; 0: none
  std::uint64_t first_element =
      0;  // with a codec: number of this table's first element in the model
};

using TableId = std::uint16_t;

// What became of a request on all parts that it touched.
struct Completion {
  std::uint64_t applied = 0;    // parts whose update has it
  std::uint64_t dropped = 0;    // parts that refused it as too late
  std::uint64_t version = 0;    // least version among answered parts: updates that were applied
  std::uint64_t clock = 0;      // least clock of all workers that the answered parts know of
  std::uint64_t staleness = 0;  // largest of the applied ones
};

// What a push is done with.
enum class PushKind : std::uint8_t {
  kGradient,  // by the table's optimizer, when and as its plan says
  kAdd,       // value += pushed, at once, exactly once
  kAssign,    // value = pushed, at once; resets optimizer state
};

struct PushOptions {
  PushKind kind = PushKind::kGradient;
  std::uint64_t clock = 0;    // steps that this worker has finished, this one included
  std::uint64_t version = 0;  // of the values that the gradient was computed at
  double weight = 1;          // samples behind it
  double rate = 0.1;          // of the optimizer; rounds take the lowest rank's
};

// When values may be given out: not before the part has this version, and all workers this clock.
struct PullOptions {
  std::uint64_t least_version = 0;
  std::uint64_t least_clock = 0;
};

using Ticket = std::uint64_t;

struct ClientOptions {
  std::string directory;  // HOST:PORT
  std::optional<Secret> secret;
  int rank = 0;  // orders sums; of two workers with the same rank the later one takes the place of
                 // the earlier
  TransportKind transport =
      TransportKind::kAuto;  // kShm where the server is on this host, else kTls or kTcp
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  // Requests without a deadline of their own.
  std::chrono::milliseconds request_timeout = std::chrono::minutes(5);
  // Pushed and not yet acknowledged, per server; more waits in the client.
  std::size_t in_flight_bytes = std::size_t{64} << 20;
};

// A worker's end. Requests are carried out in the order in which they are submitted, many at a
// time; one that a lost server had not acknowledged is sent again to its successor, and is applied
// exactly once. Memory that a request names stays in place, unchanged, until wait() has returned
// for it. Threads: one thread at a time submits; waiting may be elsewhere. Has a thread of its own.
class Client final {
 public:
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options,
                                                 EventSink on_event = {});
  // Leaves in good order: nobody waits for this worker any more.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Makes the table, or finds it if another worker has. kMismatch if that had another spec.
  Result<TableId> define(const TableSpec& spec, Deadline by);
  std::uint32_t parts(TableId table) const;
  // Elements of a dense table's part: all have this many but the last.
  std::size_t part_elements(TableId table) const;

  // Memory that servers on this host read and write in place, zero at first. It goes with the
  // client.
  Result<std::span<std::byte>> allocate(std::size_t bytes);

  // Dense. `first` and `count` are parts; the memory holds their elements behind each other.
  struct PartRange {
    TableId table = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  Ticket push(const PartRange& range, const PushOptions& options,
              std::span<const std::byte> gradient);
  Ticket pull(const PartRange& range, const PullOptions& options, std::span<std::byte> values);
  // The values after this push, in the same message; may be one memory.
  Ticket push_pull(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                   std::span<const std::byte> gradient, std::span<std::byte> values);

  // Dense, of a table with a codec: gradients go as what the codec has made of them, one message
  // for each part of the range; of a worker with weight 0 they may be empty. kCorrupt, with nothing
  // changed, where a message cannot be of its part.
  using Messages = std::span<const std::span<const std::byte>>;
  Ticket push_encoded(const PartRange& range, const PushOptions& options, Messages gradient);
  Ticket push_pull_encoded(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                           Messages gradient, std::span<std::byte> values);
  // What came back for one part: the average that was applied, as the codec's way back has it, or
  // else its values.
  struct Average {
    bool is_average = false;
    std::vector<std::byte> bytes;
  };
  // update=bsp: the worker has the values and the state of options.version, and is told by how much
  // they move. Who cannot be told (the server is new, or the part is further) gets the part's
  // values in `values`, which is left alone otherwise. `averages` has one for each part.
  Ticket push_average(const PartRange& range, const PushOptions& push, const PullOptions& pull,
                      Messages gradient, std::span<std::byte> values, std::span<Average> averages);

  // Sparse. Keys in any order, each once; rows behind each other. All parts are touched, so that
  // rounds complete: a worker without keys pushes none.
  Ticket push(TableId table, const PushOptions& options, std::span<const std::uint64_t> keys,
              std::span<const float> rows);
  Ticket pull(TableId table, const PullOptions& options, std::span<const std::uint64_t> keys,
              std::span<float> rows);
  Ticket push_pull(TableId table, const PushOptions& push, const PullOptions& pull,
                   std::span<const std::uint64_t> keys, std::span<const float> gradient,
                   std::span<float> rows);

  // This worker has finished `clock` steps, with or without pushing.
  Ticket clock(TableId table, std::uint64_t clock);

  // Ends when all parts have answered: pushes when every copy has them. After a kTimeout, too,
  // memory that the request named is the caller's; only a server on this host that stands still may
  // yet be at memory of allocate(), which the error says.
  Result<Completion> wait(Ticket ticket, Deadline by);
  Result<Completion> wait(Ticket ticket);
  bool done(Ticket ticket) const;

  // The largest version that servers have told of, for any part: a gradient of an older one may be
  // too late.
  std::uint64_t newest_version(TableId table) const;

  // The sums over all workers that are there, when all have come; at most 65536 values. Workers
  // that leave or die while others wait are not waited for; their values count if they had come.
  Result<std::vector<double>> agree(std::span<const double> values, Deadline by);
  Result<void> barrier(Deadline by);
  // How many workers are there, and the lowest of their ranks.
  struct Membership {
    int workers = 0;
    int lowest_rank = 0;
  };
  Membership membership() const;

  struct Size {
    std::uint64_t elements = 0;  // dense: elements; sparse: rows
    std::uint64_t bytes = 0;     // of one copy, optimizer state included
    std::uint64_t updates = 0;   // that were applied, summed over parts
    std::uint64_t dropped = 0;
    std::vector<std::uint64_t> staleness;  // how many applied gradients were 0, 1, 2, ... versions
                                           // stale; the last: that or more
  };
  Result<Size> size(TableId table, Deadline by);

  // All tables as they are, each part at one moment, into a new folder below every server's
  // `snapshots`; other requests go on meanwhile. For one moment of all: between two barriers.
  Result<std::filesystem::path> snapshot(const std::string& name, Deadline by);
  // Fills the tables of a snapshot, or only those of these names, which must be defined, by any
  // number of servers. Others must not push meanwhile.
  Result<void> restore(const std::filesystem::path& snapshot, Deadline by,
                       const std::vector<std::string>& only = {});

  // Dense: everything that a part keeps beside its values, by the optimizer's state arrays, for
  // checkpoints. Same memory layout as values. With update=bsp and a codec with feedback one more
  // array behind them has what the way back has left out.
  bool keeps_residual(TableId table) const;
  Result<void> read_state(const PartRange& range, int array, std::span<std::byte> state,
                          Deadline by);
  // Puts values, state arrays and the number of updates back.
  Result<void> write_state(const PartRange& range, int array, std::span<const std::byte> state,
                           Deadline by);
  Result<void> set_version(TableId table, std::uint64_t version, Deadline by);

  // What crossed links of this client so far; memory read in place is not sent.
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
