#include "exchange/device/device_factors.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "codec/codec.h"

// One step of a bucket:
//
//   start()    left array = weight * gradient of uncompressed parameters, weight * p of matrices;
//              begins its sum
//   finish()   correlate(): p becomes the left factor; right array = weight * q; begins its sum
//              a barrier: all ranks have copies of both sums
//              rebuild(): gradient = share * sum of uncompressed parameters, p * transposed q of
//              matrices
//
// If no rank passes the barrier, the step is discarded, and the residuals have its gradients, which
// the next step sends. If some ranks pass it, every rank has both sums: catch_up() rebuilds the
// means on the others, so that no gradient counts twice. Sums may lie in memory that ranks share,
// so each rank copies them.
namespace tally::exchange {
namespace {

float* floats(std::byte* array, const Range& range) {
  return reinterpret_cast<float*>(array) + range.begin;
}

// Places arrays one behind the other, at cache lines.
BucketLayout layout_of(const std::vector<std::size_t>& counts) {
  std::vector<ParameterInfo> arrays;
  for (const std::size_t count : counts)
    arrays.push_back({.name = {}, .shape = {static_cast<std::int64_t>(count)}});
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return make_layout(arrays, order, std::numeric_limits<std::size_t>::max()).buckets.front();
}

}  // namespace

DeviceFactors::DeviceFactors(const Options& options)
    : device_(options.device),
      model_(options.model),
      update_(options.update),
      spec_(options.update.codec),
      buckets_(options.model.layout().buckets.size()) {}

Result<std::unique_ptr<DeviceFactors>> DeviceFactors::make(const Options& options) {
  std::unique_ptr<DeviceFactors> made(new DeviceFactors(options));
  std::size_t most = 0;
  for (std::size_t b = 0; b < made->buckets_.size(); ++b) {
    TALLY_TRY(made->add_bucket(b));
    most = std::max(most, made->buckets_[b].parts.size());
  }
  TALLY_TRY(made->piece_table_, options.device.allocate(most * sizeof(DevicePiece)));
  return made;
}

Result<void> DeviceFactors::add_bucket(std::size_t b) {
  const BucketLayout& layout = model_.layout().buckets[b];
  const auto is_matrix = [&](const BucketLayout::Entry& entry) {
    return is_compressed(spec_, update_.parameters[entry.parameter]);
  };
  if (std::none_of(layout.entries.begin(), layout.entries.end(), is_matrix)) return {};
  Bucket& bucket = buckets_[b];
  std::vector<std::size_t> lefts;
  std::vector<std::size_t> rights;
  for (const BucketLayout::Entry& entry : layout.entries) {
    Part part{.parameter = entry.parameter, .range = entry.range};
    if (is_matrix(entry)) {
      const Matrix matrix = matrix_of(spec_, update_.parameters[entry.parameter]);
      const std::uint64_t first = first_element_of(update_.parameters, entry.parameter);
      TALLY_TRY(part.matrix, device_.make_low_rank({.rows = matrix.rows,
                                                    .columns = matrix.columns,
                                                    .rank = spec_.rank,
                                                    .seed = factor_seed(update_.seed, first)},
                                                   spec_.feedback));
    }
    lefts.push_back(part.matrix ? part.matrix->p_count() : entry.range.count());
    rights.push_back(part.matrix ? part.matrix->q_count() : 0);
    bucket.parts.push_back(std::move(part));
  }
  const BucketLayout left = layout_of(lefts);
  const BucketLayout right = layout_of(rights);
  for (std::size_t e = 0; e < bucket.parts.size(); ++e) {
    bucket.parts[e].left = left.entries[e].range;
    bucket.parts[e].right = right.entries[e].range;
  }
  const std::vector<DeviceCell> cells = cells_of(left);
  bucket.left_cell_count = cells.size();
  TALLY_TRY(bucket.left_cells, device_.allocate(cells.size() * sizeof(DeviceCell)));
  TALLY_TRY(device_.write(bucket.left_cells.data, std::as_bytes(std::span(cells))));
  TALLY_TRY(bucket.gradient, device_.allocate(layout.count * sizeof(float)));
  TALLY_TRY(bucket.left, device_.allocate(left.bytes()));
  TALLY_TRY(bucket.right, device_.allocate(right.bytes()));
  return {};
}

Result<void> DeviceFactors::connect(Communicator& world, const Ways& ways, Deadline by) {
  world_ = &world;
  std::vector<DeviceSum::Array> arrays;
  for (Bucket& bucket : buckets_) {
    if (bucket.parts.empty()) continue;
    bucket.array = arrays.size();
    for (const DeviceMemory* const memory : {&bucket.left, &bucket.right})
      arrays.push_back({.type = DataType::kFloat32, .count = memory->bytes / sizeof(float)});
  }
  if (arrays.empty()) return {};
  const MakeDeviceSum make = world.size() == 1 ? host_sum_maker() : ways.make_sum;
  TALLY_TRY(sums_, make(world, device_, arrays, by));
  return {};
}

bool DeviceFactors::encodes(std::size_t b, std::uint64_t updates) const {
  return !buckets_[b].parts.empty() && !codec::is_plain_at(spec_, updates);
}

float DeviceFactors::weight_of(double samples) const {
  return world_->size() == 1 ? 1 : static_cast<float>(samples);
}

// `to` = factor * the used ones of pieces_; 0 for others.
Result<void> DeviceFactors::gather(DeviceBucket to, float factor) {
  to.type = DataType::kFloat32;
  to.pieces = reinterpret_cast<const DevicePiece*>(piece_table_.data);
  TALLY_TRY(device_.post(piece_table_.data, std::as_bytes(std::span(pieces_))));
  return device_.gather(to, {.factor = factor});
}

Result<void> DeviceFactors::start(std::size_t b, const Step& step, double samples) {
  const Bucket& bucket = buckets_[b];
  const float weight = weight_of(samples);
  const auto is_sent = [&](const Part& part) {
    return samples > 0 && step.used[part.parameter] != 0;
  };
  pieces_.clear();
  for (const Part& part : bucket.parts)
    pieces_.push_back(
        {.first = part.left.begin,
         .count = part.left.count(),
         .gradient = reinterpret_cast<const std::byte*>(floats(bucket.gradient.data, part.range)),
         .used = is_sent(part) && !part.matrix ? 1U : 0U});
  std::byte* const left = sums_->own(bucket.array);
  TALLY_TRY(gather({.sums = left,
                    .cells = reinterpret_cast<const DeviceCell*>(bucket.left_cells.data),
                    .cell_count = bucket.left_cell_count},
                   weight));
  for (const Part& part : bucket.parts)
    if (is_sent(part) && part.matrix)
      TALLY_TRY(part.matrix->project(floats(bucket.gradient.data, part.range), weight,
                                     floats(left, part.left)));
  return sums_->start(bucket.array);
}

Result<void> DeviceFactors::finish(const Step& step, std::span<const double> weights, Deadline by) {
  const bool sums = sums_ && !codec::is_plain_at(spec_, step.number);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const Weights factors{.own = weight_of(weights[static_cast<std::size_t>(world_->rank())]),
                        .share = world_->size() == 1 ? 1 : static_cast<float>(1 / total)};
  if (sums) {
    TALLY_TRY(sums_->finish(by));
    for (const Bucket& bucket : buckets_)
      if (!bucket.parts.empty()) TALLY_TRY(correlate(bucket, factors));
    TALLY_TRY(sums_->finish(by));
    for (const Bucket& bucket : buckets_)
      if (!bucket.parts.empty()) TALLY_TRY(copy_sum(bucket.array + 1, bucket.right));
    share_ = factors.share;
  }
  if (world_->size() > 1) TALLY_TRY(world_->barrier({.by = by}));
  return catch_up(step);
}

Result<void> DeviceFactors::catch_up(const Step& step) {
  if (!share_) return {};
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (!buckets_[b].parts.empty()) TALLY_TRY(rebuild(b, step, *share_));
  share_.reset();
  return {};
}

Result<void> DeviceFactors::copy_sum(std::size_t array, const DeviceMemory& to) {
  return device_.copy(to.data, sums_->total(array), to.bytes);
}

// Matrices that no rank uses take part, with zeros: their place in the right array has the factor
// of an earlier step.
Result<void> DeviceFactors::correlate(const Bucket& bucket, const Weights& weights) {
  TALLY_TRY(copy_sum(bucket.array, bucket.left));
  std::byte* const right = sums_->own(bucket.array + 1);
  for (const Part& part : bucket.parts)
    if (part.matrix)
      TALLY_TRY(part.matrix->correlate(floats(bucket.left.data, part.left), weights.share,
                                       weights.own, floats(right, part.right)));
  return sums_->start(bucket.array + 1);
}

Result<void> DeviceFactors::rebuild(std::size_t b, const Step& step, float share) {
  const Bucket& bucket = buckets_[b];
  const auto is_used = [&](const Part& part) { return step.used[part.parameter] != 0; };
  pieces_.clear();
  for (const Part& part : bucket.parts)
    pieces_.push_back(
        {.first = part.range.begin,
         .count = part.range.count(),
         .gradient = reinterpret_cast<const std::byte*>(floats(bucket.left.data, part.left)),
         .used = is_used(part) && !part.matrix ? 1U : 0U});
  DeviceBucket gathered = model_.bucket(b);
  gathered.sums = bucket.gradient.data;
  TALLY_TRY(gather(gathered, share));
  for (const Part& part : bucket.parts)
    if (is_used(part) && part.matrix)
      TALLY_TRY(part.matrix->finish(floats(bucket.left.data, part.left),
                                    floats(bucket.right.data, part.right), share,
                                    floats(bucket.gradient.data, part.range)));
  return {};
}

void DeviceFactors::end_step() {
  share_.reset();
  for (const Bucket& bucket : buckets_)
    for (const Part& part : bucket.parts)
      if (part.matrix) part.matrix->give_up();
}

// Q is the same on all ranks, and the first one saves it. All of them read it: a checkpoint without
// it leaves the present one.
Result<EncodedBuckets::HostState> DeviceFactors::read(const Sender& self) const {
  HostState state;
  const auto add = [&](CodecState added, const float* from, std::size_t count) {
    added.values = state.memory.emplace_back(count);
    state.states.push_back(added);
    return device_.read(std::as_writable_bytes(added.values),
                        reinterpret_cast<const std::byte*>(from));
  };
  for (const Bucket& bucket : buckets_)
    for (const Part& part : bucket.parts) {
      if (!part.matrix) continue;
      if (spec_.feedback)
        TALLY_TRY(add({.parameter = part.parameter, .name = "residual"}, part.matrix->residual(),
                      part.range.count()));
      TALLY_TRY(add({.parameter = part.parameter,
                     .name = "q",
                     .is_of_sender = false,
                     .is_saved_here = self.number == 0},
                    part.matrix->q(), part.matrix->q_count()));
    }
  return state;
}

Result<void> DeviceFactors::write(const HostState& state) {
  for (const CodecState& each : state.states)
    for (const Part& part : buckets_[model_.layout().place_of[each.parameter].bucket].parts)
      if (part.parameter == each.parameter) {
        float* const to = each.is_of_sender ? part.matrix->residual() : part.matrix->q();
        TALLY_TRY(device_.write(reinterpret_cast<std::byte*>(to), std::as_bytes(each.values)));
      }
  return {};
}

Result<void> DeviceFactors::spread_shared(Communicator& world, Rank root, Deadline by) {
  if (world.size() == 1) return {};
  for (const Bucket& bucket : buckets_)
    for (const Part& part : bucket.parts) {
      if (!part.matrix) continue;
      std::vector<float> q(part.matrix->q_count());
      auto* const own = reinterpret_cast<std::byte*>(part.matrix->q());
      if (world.rank() == root) TALLY_TRY(device_.read(std::as_writable_bytes(std::span(q)), own));
      TALLY_TRY(world.broadcast(std::span(q), root, {.by = by}));
      if (world.rank() != root) TALLY_TRY(device_.write(own, std::as_bytes(std::span(q))));
    }
  return {};
}

std::size_t DeviceFactors::bytes() const {
  std::size_t bytes = piece_table_.bytes + (sums_ ? sums_->bytes() : 0);
  for (const Bucket& bucket : buckets_) {
    bytes +=
        bucket.gradient.bytes + bucket.left.bytes + bucket.right.bytes + bucket.left_cells.bytes;
    for (const Part& part : bucket.parts)
      if (part.matrix) bytes += (part.range.count() + part.matrix->q_count()) * sizeof(float);
  }
  return bytes;
}

}  // namespace tally::exchange
