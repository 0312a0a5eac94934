#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
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
  std::vector<std::int64_t> shape;  // {}: one number

  bool operator==(const TensorInfo&) const = default;
};

// Some elements of one tensor, counted as if it were flat (row-major). Borrows the bytes.
struct Piece {
  std::size_t tensor = 0;   // index in the list
  std::uint64_t first = 0;  // element
  std::span<const std::byte> bytes;
};

// What one rank hands over. `step`, `tensors` and `state_tensors` are the same on all ranks; the
// pieces of all ranks together cover every tensor exactly once. A rank need not have any.
struct Content {
  std::uint64_t step = 0;
  std::vector<TensorInfo> tensors;  // parameters and buffers
  std::vector<Piece> model;
  std::vector<TensorInfo> state_tensors;  // of the optimizer: "fc1.weight/exp_avg"
  std::vector<Piece> optimizer;
  std::string state;       // rank 0's: one JSON object (position, schedule, plan, seed, counters)
  std::string rank_state;  // each rank's own (random states), any bytes
};

struct WriterOptions {
  std::filesystem::path folder;  // made if it is not there; a file system that all ranks see
  int keep = 3;                  // checkpoints; at least 1
  // For all ranks to be done with one save.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// Writes checkpoints in the background, by a thread of its own on each rank with a communicator of
// its own. A checkpoint is written aside, synced and renamed: whatever happens, all that bear their
// final name are whole. Threads: one. Destroyed before the job is closed or formed anew; that waits
// for the save under way.
class Writer {
 public:
  // Collective. kRefused if another job writes to the folder; kSystem names the rank that cannot
  // use it.
  static Result<std::unique_ptr<Writer>> make(Communicator& world, const WriterOptions& options);
  virtual ~Writer() = default;

  // Collective. Waits for the previous save, copies this rank's pieces and returns; from then on
  // they may change. The outcome comes from wait(), the same on all ranks: kInvalid (pieces leave a
  // gap, overlap or do not fit their tensor), kMismatch (ranks differ about step or tensors),
  // kSystem (a disk is full, with rank and file), or the communicator's. After such an error of the
  // communicator all saves end with it; after the others the next save is as good as the first.
  // What is returned here is the error of the previous save, if wait() has not told it; this save
  // goes on regardless.
  virtual Result<void> save(const Content& content) = 0;
  // The outcome of the last save, once it has ended; kTimeout if it has not by then.
  virtual Result<void> wait(Deadline by) = 0;
};

// Reads a checkpoint, whatever the number of ranks that wrote it. Immutable. Threads: safe.
class Reader {
 public:
  // `checkpoint` is the folder step-.... Checks manifest, sizes and layout, and that every tensor
  // is there exactly once; not the checksums of the data. kCorrupt names the file.
  static Result<std::unique_ptr<Reader>> open(const std::filesystem::path& checkpoint);
  virtual ~Reader() = default;

  virtual std::uint64_t step() const = 0;
  virtual int ranks() const = 0;  // that wrote it
  // In the order of Content.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual const std::vector<TensorInfo>& state_tensors() const = 0;
  virtual const std::string& state() const = 0;
  virtual Result<std::string> rank_state(Rank rank) const = 0;

  // Elements of a tensor from `first` on, as many as `out` has room for. kInvalid if there are not
  // as many.
  virtual Result<void> read(std::string_view tensor, std::uint64_t first,
                            std::span<std::byte> out) const = 0;
  virtual Result<void> read_state(std::string_view tensor, std::uint64_t first,
                                  std::span<std::byte> out) const = 0;

  // Reads every byte. kCorrupt names the file, the checksum expected and the one found.
  virtual Result<void> verify() const = 0;
};

// The newest checkpoint of a folder, verified. If it is damaged: kCorrupt says how, and which is
// the newest whole one. kInvalid if the folder has none.
Result<std::filesystem::path> find_latest(const std::filesystem::path& folder);

// Steps of the checkpoints in a folder, rising; whole or not. Nothing if there is no such folder.
std::vector<std::uint64_t> list_steps(const std::filesystem::path& folder);

// FOLDER/step-0000000120
std::filesystem::path path_of(const std::filesystem::path& folder, std::uint64_t step);

}  // namespace tally::checkpoint
