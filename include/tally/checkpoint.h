#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/communicator.h"
#include "tally/deadline.h"
#include "tally/error.h"
#include "tally/types.h"

// A checkpoint is a folder FOLDER/step-0000000120: model.safetensors,
// optimizer-00000-of-00002.safetensors from each rank, state.json, and manifest.json with sizes and
// checksums. docs/checkpoints.md has the format.
namespace tally::checkpoint {

struct TensorInfo {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape;  // {}: a scalar

  bool operator==(const TensorInfo&) const = default;
};

// Bytes that a device still copies to their memory, which this object keeps.
class PendingBytes {
 public:
  virtual ~PendingBytes() = default;
  // Waits until they are complete. Threads: any.
  virtual Result<void> wait(Deadline by) const = 0;
};

// A contiguous range of one tensor's elements in row-major order. Borrows the bytes.
struct Piece {
  std::size_t tensor = 0;   // index in Content::tensors or Content::state_tensors
  std::uint64_t first = 0;  // element
  std::span<const std::byte> bytes;
  bool is_pending = false;  // the bytes are those of Content::pending
};

// The part of a checkpoint that one rank saves. `step`, `tensors` and `state_tensors` are equal on
// all ranks. The pieces of all ranks together cover every tensor exactly once; a rank may have no
// pieces.
struct Content {
  std::uint64_t step = 0;
  std::vector<TensorInfo> tensors;  // parameters and buffers
  std::vector<Piece> model;
  std::vector<TensorInfo> state_tensors;  // of the optimizer: "fc1.weight/exp_avg"
  std::vector<Piece> optimizer;
  std::string state;  // rank 0 only: one JSON object (position, schedule, plan, seed, counters)
  std::string rank_state;  // of this rank (random number generators), any bytes
  // Null if no piece is pending. The bytes of pending pieces are valid after its wait(), and as
  // long as it exists.
  std::shared_ptr<const PendingBytes> pending = nullptr;
};

struct WriterOptions {
  std::filesystem::path folder;  // created if missing; on a file system that all ranks share
  int keep = 3;                  // checkpoints to keep; at least 1
  // The step that the training begins after. Checkpoints of later steps belong to an abandoned run:
  // make() renames them to old-step-..., so that find_latest() does not return them after a restart
  // of the job. Without a value they are renamed after the first save.
  std::optional<std::uint64_t> begin_step = {};
  // Name of the run that writes, which stays the same when its job is restarted. make() stores it
  // after the renames above, see last_run(). Empty: none.
  std::string run = {};
  // Limit of one save on all ranks.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// Writes checkpoints in the background. Each rank's writer has its own thread and its own
// communicator. A checkpoint is written under a temporary name, synced and renamed, so a folder
// with a final name is always complete, also after a crash.
// Threads: one. Destroy the writer before Job::close() or Job::reform(); the destructor waits for
// the running save.
class Writer {
 public:
  // Collective. Returns kRefused if another job writes to the folder. kSystem names the rank that
  // cannot use the folder.
  static Result<std::unique_ptr<Writer>> make(Communicator& world, const WriterOptions& options);
  virtual ~Writer() = default;

  // Collective. Waits for the previous save, copies this rank's pieces and returns; the caller may
  // then change them. Pending pieces are not copied: the writing thread waits for them. wait()
  // returns the outcome, which is the same on all ranks: kInvalid (pieces leave a gap, overlap or
  // do not fit their tensor), kMismatch (step or tensors differ between ranks), kSystem (for
  // example a full disk; names rank and file), or an error of the communicator. After an error of
  // the communicator all later saves fail with it; after any other error the next save works
  // normally.
  // save() itself returns the error of the previous save if wait() has not returned it yet; the new
  // save starts nevertheless. It returns kTimeout, without starting a save, if the previous save
  // still runs after twice the timeout.
  virtual Result<void> save(const Content& content) = 0;
  // Waits for the last save and returns its outcome; kTimeout if it still runs at the deadline.
  virtual Result<void> wait(Deadline by) = 0;
};

// Reads a checkpoint that any number of ranks wrote. Immutable. Threads: safe.
class Reader {
 public:
  // `checkpoint` is the folder step-.... Checks the manifest, the file sizes, the layout, and that
  // the checkpoint has every tensor exactly once. verify() checks the checksums of the data.
  // kCorrupt names the file.
  // `checkpoint` may also be a single safetensors file of any program, such as Python's save_file()
  // writes: its tensors by name, with step 0, one rank and no state. Such a file has no checksums.
  static Result<std::unique_ptr<Reader>> open(const std::filesystem::path& checkpoint);
  virtual ~Reader() = default;

  virtual const std::filesystem::path& path() const = 0;  // as open() got it
  virtual std::uint64_t step() const = 0;
  virtual int ranks() const = 0;  // that wrote the checkpoint
  // In the order of Content.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual const std::vector<TensorInfo>& state_tensors() const = 0;
  virtual const std::string& state() const = 0;  // empty for a single file
  virtual Result<std::string> rank_state(Rank rank) const = 0;

  // Fills `out` with the tensor's elements from `first` on. Returns kInvalid if the checkpoint has
  // no such tensor, if the tensor has fewer elements, or if `out` is no whole number of elements.
  virtual Result<void> read(std::string_view tensor, std::uint64_t first,
                            std::span<std::byte> out) const = 0;
  virtual Result<void> read_state(std::string_view tensor, std::uint64_t first,
                                  std::span<std::byte> out) const = 0;

  // Reads every file and compares checksums. kCorrupt names the file, the expected checksum and the
  // found one.
  virtual Result<void> verify() const = 0;
};

// Returns the newest checkpoint of a folder after Reader::verify(). If it is damaged, the error
// names the damage and the newest intact checkpoint. Returns kInvalid if the folder has no
// checkpoint.
Result<std::filesystem::path> find_latest(const std::filesystem::path& folder);

// Lists the steps of all checkpoints in a folder in ascending order, damaged ones included. Empty
// if the folder does not exist.
std::vector<std::uint64_t> list_steps(const std::filesystem::path& folder);

// The run (WriterOptions::run) whose writer was made last for this folder; empty if there was none.
// A restarted job continues from the newest checkpoint if this is its own run: before that, the
// folder only has checkpoints of earlier runs.
std::string last_run(const std::filesystem::path& folder);

// FOLDER/step-0000000120
std::filesystem::path path_of(const std::filesystem::path& folder, std::uint64_t step);

}  // namespace tally::checkpoint
