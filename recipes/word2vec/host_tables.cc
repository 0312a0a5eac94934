#include "recipes/word2vec/host_tables.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/rng.h"
#include "kernel/skipgram/skipgram.h"

namespace tally::word2vec {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<double>::is_always_lock_free);

constexpr std::size_t kStopBytes = 64;

std::size_t value_bytes(const HostTables::Shape& shape) {
  return 2 * shape.rows * kernel::skipgram_stride(shape.dimension) * sizeof(float);
}

}  // namespace

void initialise_row(std::span<float> row, WordId id, std::uint64_t seed) {
  Rng rng(Rng(seed ^ (std::uint64_t{id} << 32)).next());
  for (float& value : row)
    value = static_cast<float>((rng.uniform() - 0.5) / static_cast<double>(row.size()));
}

HostTables::HostTables(const Shape& shape, int local)
    : shape_(shape), stride_(kernel::skipgram_stride(shape.dimension)), local_(local) {}

Result<std::unique_ptr<HostTables>> HostTables::make(Communicator& world,
                                                     const collective::Topology& topology,
                                                     const Shape& shape, std::uint64_t seed,
                                                     Deadline by) {
  std::unique_ptr<HostTables> tables(new HostTables(shape, topology.local));
  const auto locals = static_cast<std::size_t>(topology.locals());
  const std::size_t bytes = value_bytes(shape) + kStopBytes + locals * sizeof(WorkerProgress);
  auto own = world.allocate(topology.local == 0 ? bytes : 1);
  if (!own) {
    own.error().message = fmt::format("no memory for {} rows of {} values: {}", 2 * shape.rows,
                                      shape.dimension, own.error().message);
    return std::move(own).error();
  }
  tables->own_ = std::move(*own);
  TALLY_TRY(const auto views, world.share(tables->own_, by));
  const std::span<std::byte> memory = views[static_cast<std::size_t>(topology.neighbours.front())];
  TALLY_CHECK(memory.size() >= bytes);
  tables->values_ = {reinterpret_cast<float*>(memory.data()), value_bytes(shape) / sizeof(float)};
  std::byte* const behind = memory.data() + value_bytes(shape);
  tables->stop_ = reinterpret_cast<std::atomic<std::uint32_t>*>(behind);
  tables->progress_ = {reinterpret_cast<WorkerProgress*>(behind + kStopBytes), locals};
  tables->initialise_part(topology.locals(), seed);
  TALLY_TRY(world.barrier({.by = by}));
  return tables;
}

// Other workers of the host may still use the memory.
HostTables::~HostTables() { own_.keep(); }

void HostTables::initialise_part(int locals, std::uint64_t seed) {
  const auto part = static_cast<std::size_t>(local_);
  const auto parts = static_cast<std::size_t>(locals);
  for (std::size_t row = shape_.rows * part / parts; row < shape_.rows * (part + 1) / parts; ++row)
    initialise_row(values_.subspan(row * stride_, shape_.dimension), static_cast<WordId>(row),
                   seed);
}

Result<RowTables> HostTables::fetch(Chunk&) {
  return RowTables{.inputs = values_.data(),
                   .outputs = values_.data() + shape_.rows * stride_,
                   .stride = stride_};
}

HostProgress HostTables::progress() const {
  HostProgress sum;
  for (const WorkerProgress& worker : progress_) {
    sum.words += worker.words.load(std::memory_order_relaxed);
    sum.loss += worker.loss.load(std::memory_order_relaxed);
    sum.pairs += worker.pairs.load(std::memory_order_relaxed);
  }
  return sum;
}

void HostTables::ask_to_stop() const { stop_->store(1, std::memory_order_relaxed); }
bool HostTables::is_asked_to_stop() const { return stop_->load(std::memory_order_relaxed) != 0; }

}  // namespace tally::word2vec
