#include "exchange/device/device_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "optimizer/update_rule.h"

namespace tally::exchange {
namespace {

// Arrays begin where the widest loads of a device can.
constexpr std::size_t kArrayAlignment = 512;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}

bool is_half(DataType type) { return size_of(type) < sizeof(float); }
std::size_t state_element_bytes(DataType type) {
  return type == DataType::kFloat64 ? sizeof(double) : sizeof(float);
}

}  // namespace

DeviceModel::DeviceModel(Device& device, const Options& options)
    : device_(device),
      parameters_(options.parameters),
      optimizers_(options.optimizers),
      layout_(make_layout(options.parameters, options.order, options.bucket_bytes)),
      share_(options.share) {}

Range DeviceModel::range_of(std::size_t b, int index) const {
  return range_of(b, {.parts = share_.parts, .index = index});
}

DeviceBucket DeviceModel::owned(std::size_t b) const {
  DeviceBucket bucket = buckets_[b].device;
  bucket.cells += buckets_[b].owned_begin;
  bucket.cell_count = buckets_[b].owned_cells;
  return bucket;
}

const OptimizerSpec& DeviceModel::spec_of(std::size_t parameter) const {
  return optimizers_[parameters_[parameter].group];
}

std::size_t DeviceModel::arrays_of(const BucketLayout& bucket) const {
  int arrays = 0;
  for (const BucketLayout::Entry& entry : bucket.entries)
    arrays = std::max(arrays, optimizer::state_arrays(spec_of(entry.parameter)));
  return static_cast<std::size_t>(arrays);
}

std::vector<DeviceCell> cells_of(const BucketLayout& bucket) {
  std::vector<DeviceCell> cells;
  for (std::size_t e = 0; e < bucket.entries.size(); ++e) {
    const Range range = bucket.entries[e].range;
    for (std::size_t begin = range.begin; begin < range.end;) {
      const std::size_t end = std::min((begin / kBlock + 1) * kBlock, range.end);
      cells.push_back({.first = begin,
                       .count = static_cast<std::uint32_t>(end - begin),
                       .piece = static_cast<std::uint32_t>(e)});
      begin = end;
    }
  }
  return cells;
}

Result<std::unique_ptr<DeviceModel>> DeviceModel::make(Device& device, const Options& options) {
  std::unique_ptr<DeviceModel> model(new DeviceModel(device, options));
  TALLY_TRY(model->values_, device.allocate(model->layout_.bytes));
  std::size_t state_bytes = 0;
  std::vector<DeviceCell> cells;
  for (std::size_t b = 0; b < model->layout_.buckets.size(); ++b) {
    const BucketLayout& layout = model->layout_.buckets[b];
    const std::size_t arrays = model->arrays_of(layout) + (is_half(layout.type) ? 1 : 0);
    const std::vector<DeviceCell> all = cells_of(layout);
    Bucket bucket{.device = {.type = layout.type,
                             .values = model->values_.data + layout.offset,
                             .cell_count = all.size()},
                  .arrays = {},
                  .owned = model->range_of(b, model->share_.index),
                  .first_cell = cells.size()};
    // Ranges end where blocks do, and so do cells.
    const auto before = [&](std::size_t element) {
      const auto end = std::partition_point(
          all.begin(), all.end(), [&](const DeviceCell& cell) { return cell.first < element; });
      return static_cast<std::size_t>(end - all.begin());
    };
    bucket.owned_begin = before(bucket.owned.begin);
    bucket.owned_cells = before(bucket.owned.end) - bucket.owned_begin;
    state_bytes += arrays * rounded_up(bucket.owned.count() * state_element_bytes(layout.type));
    model->buckets_.push_back(std::move(bucket));
    for (const DeviceCell& cell : all)
      model->parameter_of_cell_.push_back(layout.entries[cell.piece].parameter);
    cells.insert(cells.end(), all.begin(), all.end());
  }
  model->cells_ = cells.size();
  TALLY_TRY(model->state_, device.allocate(state_bytes));
  TALLY_TRY(model->cell_table_, device.allocate(cells.size() * sizeof(DeviceCell)));
  TALLY_TRY(device.write(model->cell_table_.data, std::as_bytes(std::span(cells))));
  std::byte* next = model->state_.data;
  for (std::size_t b = 0; b < model->buckets_.size(); ++b) {
    const BucketLayout& layout = model->layout_.buckets[b];
    Bucket& bucket = model->buckets_[b];
    bucket.device.cells =
        reinterpret_cast<const DeviceCell*>(model->cell_table_.data) + bucket.first_cell;
    const std::size_t element = state_element_bytes(layout.type);
    const auto take = [&] {
      bucket.arrays.push_back(next - bucket.owned.begin * element);
      next += rounded_up(bucket.owned.count() * element);
      return bucket.arrays.back();
    };
    const std::size_t arrays = model->arrays_of(layout);
    for (std::size_t k = 0; k < arrays; ++k) bucket.device.state[k] = take();
    if (is_half(layout.type)) bucket.device.master = take();
  }
  TALLY_TRY(model->initialise_state());
  return model;
}

// Memory of devices begins with zeros.
Result<void> DeviceModel::initialise_state() {
  if (std::all_of(optimizers_.begin(), optimizers_.end(),
                  [](const auto& spec) { return optimizer::initial_state(spec) == 0; }))
    return {};
  HostPart part = room_for(share_);
  for (SliceState& slice : part.states) {
    const ParameterInfo& info = parameters_[slice.parameter];
    const double initial = optimizer::initial_state(spec_of(slice.parameter));
    const auto arrays = static_cast<std::size_t>(optimizer::state_arrays(spec_of(slice.parameter)));
    for (std::size_t k = 0; k < arrays; ++k) {
      const std::span<std::byte> bytes = slice.state[k];
      if (info.type == DataType::kFloat64)
        std::fill_n(reinterpret_cast<double*>(bytes.data()), bytes.size() / sizeof(double),
                    initial);
      else
        std::fill_n(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float),
                    static_cast<float>(initial));
    }
  }
  return write(part);
}

std::span<std::byte> DeviceModel::values(std::size_t parameter) const {
  const Layout::Place& place = layout_.place_of[parameter];
  const std::size_t element = size_of(parameters_[parameter].type);
  return {buckets_[place.bucket].device.values + place.begin * element,
          parameters_[parameter].count() * element};
}

Result<void> DeviceModel::write_values(std::size_t parameter, std::span<const std::byte> values) {
  TALLY_TRY(replace_values(parameter, values));
  const DeviceBucket bucket = owned(layout_.place_of[parameter].bucket);
  return bucket.master == nullptr ? Result<void>() : device_.widen(bucket);
}

Result<void> DeviceModel::replace_values(std::size_t parameter, std::span<const std::byte> values) {
  TALLY_TRY(device_.finish_reads());
  return device_.write(this->values(parameter).data(), values);
}

Range DeviceModel::range_of(std::size_t b, const Share& share) const {
  return part_of({0, layout_.buckets[b].count},
                 {.parts = share.parts, .index = share.index, .first = b});
}

std::size_t DeviceModel::bytes_of(const Share& share) const {
  std::size_t bytes = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const DataType type = layout_.buckets[b].type;
    const std::size_t count = range_of(b, share).count();
    bytes += rounded_up(count * size_of(type)) +
             buckets_[b].arrays.size() * rounded_up(count * state_element_bytes(type));
  }
  return bytes;
}

DeviceModel::HostPart DeviceModel::plan_part(const Share& share, DeviceMemory memory,
                                             std::vector<Device::Read>& reads) const {
  HostPart part{.memory = std::move(memory)};
  std::byte* next = part.memory.data;
  // A bucket has few arrays: one run of memory for each of them.
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const BucketLayout& layout = layout_.buckets[b];
    const Bucket& bucket = buckets_[b];
    const Range range = range_of(b, share);
    if (range.empty()) continue;
    TALLY_CHECK(bucket.arrays.empty() ||
                (range.begin >= bucket.owned.begin && range.end <= bucket.owned.end));
    const std::size_t first_array = part.arrays.size();
    const auto add = [&](const std::byte* device, std::size_t element) {
      part.arrays.emplace_back(next, range.count() * element);
      next += rounded_up(range.count() * element);
      reads.push_back({.to = part.arrays.back(), .from = device + range.begin * element});
    };
    add(bucket.device.values, size_of(layout.type));
    for (std::byte* const array : bucket.arrays) add(array, state_element_bytes(layout.type));
    for (const BucketLayout::Entry& entry : layout.entries) {
      const Range common{std::max(entry.range.begin, range.begin),
                         std::min(entry.range.end, range.end)};
      if (common.begin >= common.end) continue;
      const auto of_memory = [&](std::size_t array, std::size_t element) {
        return part.arrays[first_array + array].subspan((common.begin - range.begin) * element,
                                                        common.count() * element);
      };
      SliceState state{.parameter = entry.parameter,
                       .first = common.begin - entry.range.begin,
                       .values = of_memory(0, size_of(layout.type))};
      const auto arrays =
          static_cast<std::size_t>(optimizer::state_arrays(spec_of(entry.parameter)));
      for (std::size_t k = 0; k < arrays; ++k)
        state.state.push_back(of_memory(1 + k, state_element_bytes(layout.type)));
      if (bucket.device.master != nullptr)
        state.state.push_back(of_memory(bucket.arrays.size(), state_element_bytes(layout.type)));
      part.states.push_back(std::move(state));
    }
  }
  return part;
}

DeviceModel::HostPart DeviceModel::room_for(const Share& share) const {
  std::vector<Device::Read> reads;
  return plan_part(share, ordinary_memory(bytes_of(share)), reads);
}

Result<DeviceModel::HostPart> DeviceModel::read(const Share& share) const {
  std::vector<Device::Read> reads;
  HostPart part = plan_part(share, ordinary_memory(bytes_of(share)), reads);
  TALLY_TRY(device_.read_all(reads));
  return part;
}

// The memory of a checkpoint that is still being written has another owner.
Result<DeviceModel::PendingPart> DeviceModel::begin_read(const Share& share,
                                                         HostPart former) const {
  const std::size_t bytes = bytes_of(share);
  const bool is_free = former.memory.data != nullptr && former.memory.bytes == bytes &&
                       former.memory.owner.use_count() == 1;
  std::vector<Device::Read> reads;
  PendingPart pending{
      .part = plan_part(share, is_free ? std::move(former.memory) : device_.allocate_on_host(bytes),
                        reads),
      .bytes = nullptr};
  using Owners = std::array<std::shared_ptr<const void>, 3>;
  TALLY_TRY(
      pending.bytes,
      device_.begin_reads(reads, std::make_shared<Owners>(Owners{pending.part.memory.owner,
                                                                 values_.owner, state_.owner})));
  return pending;
}

Result<void> DeviceModel::write(const HostPart& part) {
  TALLY_TRY(device_.finish_reads());
  for (const SliceState& slice : part.states) {
    const Layout::Place& place = layout_.place_of[slice.parameter];
    const Bucket& bucket = buckets_[place.bucket];
    const DataType type = parameters_[slice.parameter].type;
    const std::size_t first = place.begin + slice.first;
    TALLY_TRY(device_.write(bucket.device.values + first * size_of(type), slice.values));
    const bool has_master = bucket.device.master != nullptr;
    for (std::size_t k = 0; k < slice.state.size(); ++k) {
      const bool is_master = has_master && k + 1 == slice.state.size();
      std::byte* const array = is_master ? bucket.device.master : bucket.device.state[k];
      TALLY_TRY(device_.write(array + first * state_element_bytes(type), slice.state[k]));
    }
  }
  return {};
}

std::size_t DeviceModel::bytes() const { return values_.bytes + state_.bytes + cell_table_.bytes; }

}  // namespace tally::exchange
