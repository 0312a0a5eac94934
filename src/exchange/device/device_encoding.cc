#include "exchange/device/device_encoding.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/errors.h"
#include "codec/codec.h"
#include "codec/encoder/encoder.h"
#include "kernel/update/update.h"

// One step of a part: its values are `gradient`, the mean of this rank's samples.
//
//   start()    momentum = factor * momentum + gradient     early momentum: encodes this instead
//              encode(residual + gradient), which keeps the new residual, into DeviceGather::own()
//   finish()   average(): gradient = sum of share * decoded encoding, in the order of ranks
//              send_back(): gradient = decode(encode(back_residual + gradient))
//
// The encodings of a bucket lie one behind the other at multiples of 16 bytes. Where all of them
// have a fixed size, unused parts leave a gap, and every rank knows all places. Otherwise the ranks
// exchange the sizes through host memory.
//
// A part is as long as possible. A group encodes runs of codec::kRunElements, so a longer part must
// have its blocks at the same elements.
namespace tally::exchange {
namespace {

constexpr std::size_t kEncodingAlignment = 16;

std::size_t encoding_room(std::size_t bytes) {
  return (bytes + kEncodingAlignment - 1) / kEncodingAlignment * kEncodingAlignment;
}

// Whether a run has the same decoded values if it is cut at multiples of kRunElements.
bool is_cut_alike(const plan::CodecSpec& spec, std::size_t columns) {
  switch (spec.kind) {
    case plan::Codec::kFp16:
    case plan::Codec::kBf16:
    case plan::Codec::kThreshold:
      return true;
    case plan::Codec::kTopk:
      return false;
    default: {
      const std::size_t block = spec.by_column && columns > 0 ? columns : spec.block;
      return block > 0 && codec::kRunElements % block == 0;
    }
  }
}

float* floats(const DeviceMemory& memory, const Range& range) {
  return memory.data == nullptr ? nullptr : reinterpret_cast<float*>(memory.data) + range.begin;
}

}  // namespace

DeviceEncoding::DeviceEncoding(const Options& options)
    : device_(options.device),
      model_(options.model),
      update_(options.update),
      spec_(options.update.codec),
      has_back_feedback_(codec::make_broadcast_codec(spec_).feedback),
      buckets_(options.model.layout().buckets.size()) {}

Result<std::unique_ptr<DeviceEncoding>> DeviceEncoding::make(const Options& options) {
  std::unique_ptr<DeviceEncoding> made(new DeviceEncoding(options));
  TALLY_TRY(made->add_parts());
  TALLY_TRY(made->allocate());
  return made;
}

std::size_t DeviceEncoding::run_elements(const ParameterInfo& info) const {
  const bool is_whole =
      !is_compressed(spec_, info) || is_cut_alike(spec_, codec::shape_of(info.shape).columns);
  return is_whole ? info.count() : codec::kRunElements;
}

// Makes the parts and their codecs. A codec takes runs of at most a given length, so the longest
// runs are found first.
Result<void> DeviceEncoding::add_parts() {
  using Key = Codecs::key_type;
  std::map<Key, std::size_t> longest;
  std::size_t longest_plain = 1;
  std::vector<std::pair<Part*, Key>> keys;
  const bool differs = codec::differs_by_run(spec_);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const BucketLayout& layout = model_.layout().buckets[b];
    if (layout.type == DataType::kFloat64) continue;
    for (const BucketLayout::Entry& entry : layout.entries) {
      const ParameterInfo& info = update_.parameters[entry.parameter];
      const std::size_t step = run_elements(info);
      for (std::size_t first = 0; first < info.count(); first += step) {
        const std::size_t begin = entry.range.begin + first;
        buckets_[b].parts.push_back({.parameter = entry.parameter,
                                     .range = {begin, std::min(begin + step, entry.range.end)},
                                     .is_compressed = is_compressed(spec_, info),
                                     .number = part_count_++});
      }
    }
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    for (Part& part : buckets_[b].parts) {
      longest_plain = std::max(longest_plain, part.count());
      if (!part.is_compressed) continue;
      const std::size_t begin = model_.layout().place_of[part.parameter].begin;
      const codec::Shape shape =
          codec::shape_of(update_.parameters[part.parameter].shape, part.range.begin - begin);
      const Key key = differs ? Key{shape.columns, shape.first} : Key{};
      longest[key] = std::max(longest[key], part.count());
      keys.emplace_back(&part, key);
    }
  TALLY_TRY(damaged_, device_.allocate(sizeof(std::uint32_t)));
  auto* const damaged = reinterpret_cast<std::uint32_t*>(damaged_.data);
  TALLY_TRY(plain_, device_.make_codec({}, longest_plain, {}, damaged));
  const std::optional<plan::CodecSpec> back = codec::broadcast_spec(spec_);
  std::size_t longest_back = 0;
  for (const auto& [key, most] : longest) {
    TALLY_TRY(codecs_[key], device_.make_codec(
                                spec_, most, {.columns = key.first, .first = key.second}, damaged));
    longest_back = std::max(longest_back, most);
  }
  const bool is_back_same = back && *back == spec_;
  if (back && !is_back_same && longest_back > 0) {
    TALLY_TRY(back_codecs_[Key{}], device_.make_codec(*back, longest_back, {}, damaged));
  }
  for (const auto& [part, key] : keys) {
    part->codec = codecs_[key].get();
    if (back) part->back = (is_back_same ? codecs_[key] : back_codecs_[Key{}]).get();
  }
  sizes_.resize(part_count_);
  return {};
}

Result<void> DeviceEncoding::allocate() {
  std::size_t longest = 0;
  std::size_t room = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    bucket.first_piece = pieces_.size();
    if (bucket.parts.empty()) continue;
    const std::size_t bytes = model_.layout().buckets[b].count * sizeof(float);
    TALLY_TRY(bucket.gradient, device_.allocate(bytes));
    const bool has_compressed = std::any_of(bucket.parts.begin(), bucket.parts.end(),
                                            [](const Part& part) { return part.is_compressed; });
    if (!has_compressed) continue;
    if (spec_.feedback) {
      TALLY_TRY(bucket.residual, device_.allocate(bytes));
    }
    if (has_back_feedback_) {
      TALLY_TRY(bucket.back_residual, device_.allocate(bytes));
    }
    for (const Part& part : bucket.parts)
      if (part.back != nullptr)
        room =
            std::max({room, part.back->max_bytes(part.count()), plain_->max_bytes(part.count())});
    if (!spec_.early_momentum) continue;
    TALLY_TRY(bucket.momentum, device_.allocate(bytes));
    longest = std::max(longest, bytes);
    pieces_.resize(pieces_.size() + model_.layout().buckets[b].entries.size());
  }
  if (room > 0) {
    TALLY_TRY(scratch_, device_.allocate(room));
  }
  if (longest > 0) {
    TALLY_TRY(ahead_, device_.allocate(longest));
    TALLY_TRY(piece_table_, device_.allocate(pieces_.size() * sizeof(DevicePiece)));
  }
  return {};
}

std::size_t DeviceEncoding::capacity_of(const Bucket& bucket) const {
  std::size_t bytes = 0;
  for (const Part& part : bucket.parts) {
    std::size_t most = part.is_compressed ? part.codec->max_bytes(part.count()) : 0;
    if (!part.is_compressed || spec_.warmup > 0)
      most = std::max(most, plain_->max_bytes(part.count()));
    bytes += encoding_room(most);
  }
  return bytes;
}

Result<void> DeviceEncoding::connect(Communicator& world, const Ways& ways, Deadline by) {
  world_ = &world;
  std::vector<std::size_t> capacities;
  for (Bucket& bucket : buckets_) {
    if (bucket.parts.empty()) continue;
    bucket.array = capacities.size();
    capacities.push_back(capacity_of(bucket));
  }
  // A rank that is alone has nobody to share memory with.
  const MakeDeviceGather make = world.size() == 1 ? host_gather_maker() : ways.make_gather;
  TALLY_TRY(gather_, make(world, device_, capacities, by));
  return {};
}

bool DeviceEncoding::is_plain(const Part& part, std::uint64_t step) const {
  return !part.is_compressed || codec::is_plain_at(spec_, step);
}

DeviceCodec& DeviceEncoding::codec_of(const Part& part, std::uint64_t step) const {
  return is_plain(part, step) ? *plain_ : *part.codec;
}

bool DeviceEncoding::is_fixed(std::uint64_t step) const {
  return codec::is_plain_at(spec_, step) ||
         std::all_of(codecs_.begin(), codecs_.end(),
                     [](const auto& each) { return each.second->is_fixed_size(); });
}

Result<void> DeviceEncoding::start(std::size_t b, const Step& step, double samples) {
  const Bucket& bucket = buckets_[b];
  for (const Part& part : bucket.parts) sizes_[part.number] = 0;
  if (samples == 0) return gather_->start(bucket.array, 0);
  TALLY_TRY(const float* const sent, with_momentum(b, step));
  const bool fixed = is_fixed(step.number);
  std::size_t offset = 0;
  for (const Part& part : bucket.parts) {
    DeviceCodec& codec = codec_of(part, step.number);
    std::size_t size = fixed ? codec.max_bytes(part.count()) : 0;
    if (step.used[part.parameter] != 0) {
      const float* const values =
          part.is_compressed ? sent + part.range.begin : floats(bucket.gradient, part.range);
      TALLY_TRY(encode(part, bucket, values, step.number, gather_->own(bucket.array) + offset));
      if (!fixed) {
        TALLY_TRY(size, codec.encoded_bytes());
      }
    }
    sizes_[part.number] = static_cast<std::int64_t>(size);
    offset += encoding_room(size);
  }
  return gather_->start(bucket.array, offset);
}

Result<void> DeviceEncoding::encode(const Part& part, const Bucket& bucket, const float* values,
                                    std::uint64_t step, std::byte* out) {
  DeviceCodec& codec = codec_of(part, step);
  if (!part.is_compressed || bucket.residual.data == nullptr)
    return codec.encode(values, part.count(), out);
  return codec.encode_with_feedback(values, floats(bucket.residual, part.range), part.count(), out);
}

// The values to encode. Early momentum runs the loops of an optimizer on an array that is no
// parameter: it begins with zeros, and a rate of -1 leaves there what is to be sent.
//   kMomentum    momentum = factor * momentum + gradient, and sends that
//   kNesterov    the same, and sends gradient + factor * momentum
// A gradient that is not finite stays in the momentum, whereas a group forgets it: the model then
// is not finite anyway, unless losses are scaled (device_fit()).
Result<const float*> DeviceEncoding::with_momentum(std::size_t b, const Step& step) {
  const Bucket& bucket = buckets_[b];
  if (bucket.momentum.data == nullptr) return reinterpret_cast<const float*>(bucket.gradient.data);
  const BucketLayout& layout = model_.layout().buckets[b];
  const auto facts_of = [&](const BucketLayout::Entry& entry) -> const codec::SenderFacts& {
    return update_.senders[update_.parameters[entry.parameter].group];
  };
  const std::span<DevicePiece> pieces =
      std::span(pieces_).subspan(bucket.first_piece, layout.entries.size());
  for (std::size_t e = 0; e < pieces.size(); ++e) {
    const BucketLayout::Entry& entry = layout.entries[e];
    pieces[e] = {.first = entry.range.begin, .count = entry.range.count(), .used = 0};
    const kernel::SgdFactors<float> factors{
        .rate = -1,
        .momentum = static_cast<float>(facts_of(entry).momentum),
        .gain = 1,
        .weight_decay = 0};
    std::memcpy(pieces[e].factors.data(), &factors, sizeof(factors));
  }
  std::byte* const table = piece_table_.data + bucket.first_piece * sizeof(DevicePiece);
  DeviceBucket work = model_.bucket(b);
  work.type = DataType::kFloat32;
  work.values = work.sums = ahead_.data;
  work.master = nullptr;
  work.state = {bucket.momentum.data, nullptr};
  work.pieces = reinterpret_cast<const DevicePiece*>(table);
  TALLY_TRY(device_.post(table, std::as_bytes(pieces)));
  TALLY_TRY(device_.gather(work, {}));  // zeros, for no piece is used
  work.sums = bucket.gradient.data;
  for (const bool nesterov : {false, true}) {
    bool runs = false;
    for (std::size_t e = 0; e < pieces.size(); ++e) {
      const BucketLayout::Entry& entry = layout.entries[e];
      const bool is_sent = step.used[entry.parameter] != 0 &&
                           is_compressed(spec_, update_.parameters[entry.parameter]);
      pieces[e].used = is_sent && facts_of(entry).nesterov == nesterov ? 1 : 0;
      runs = runs || pieces[e].used != 0;
    }
    if (!runs) continue;
    TALLY_TRY(device_.post(table, std::as_bytes(pieces)));
    TALLY_TRY(device_.update(work, nesterov ? UpdateLoop::kNesterov : UpdateLoop::kMomentum, {}));
  }
  return reinterpret_cast<const float*>(ahead_.data);
}

Result<void> DeviceEncoding::finish(const Step& step, std::span<const double> weights,
                                    Deadline by) {
  if (!is_fixed(step.number)) TALLY_TRY(learn_sizes(by));
  TALLY_TRY(gather_->finish(by));
  double total = 0;
  for (const double weight : weights) total += weight;
  std::vector<float> shares;
  for (const double weight : weights) shares.push_back(static_cast<float>(weight / total));
  for (const Bucket& bucket : buckets_)
    if (!bucket.parts.empty()) TALLY_TRY(average(bucket, step, shares));
  TALLY_TRY(check(by));
  return world_->size() > 1 ? world_->barrier({.by = by}) : Result<void>();
}

Result<void> DeviceEncoding::learn_sizes(Deadline by) {
  all_sizes_.assign(sizes_.size() * static_cast<std::size_t>(world_->size()), 0);
  return world_->allgather(std::span<const std::int64_t>(sizes_), std::span(all_sizes_),
                           {.by = by});
}

Result<void> DeviceEncoding::average(const Bucket& bucket, const Step& step,
                                     std::span<const float> shares) {
  const bool fixed = is_fixed(step.number);
  std::vector<std::size_t> offsets(shares.size());
  std::vector<DeviceEncoded> senders;
  for (const Part& part : bucket.parts) {
    DeviceCodec& codec = codec_of(part, step.number);
    const bool is_used = step.used[part.parameter] != 0;
    senders.clear();
    for (std::size_t r = 0; r < shares.size(); ++r) {
      if (shares[r] == 0) continue;
      const auto rank = static_cast<Rank>(r);
      const std::span<const std::byte> message = gather_->of(rank, bucket.array);
      const std::int64_t told = fixed ? static_cast<std::int64_t>(codec.max_bytes(part.count()))
                                      : all_sizes_[r * sizes_.size() + part.number];
      if (told < 0 || offsets[r] > message.size() ||
          static_cast<std::uint64_t>(told) > message.size() - offsets[r])
        return make_error(
            ErrorCode::kCorrupt, rank, "the gradient of {}: {} bytes at {} of a message of {}",
            update_.parameters[part.parameter].name, told, offsets[r], message.size());
      const auto size = static_cast<std::size_t>(told);
      senders.push_back({.bytes = message.data() + offsets[r], .size = size, .weight = shares[r]});
      offsets[r] += encoding_room(size);
    }
    if (!is_used) continue;
    TALLY_TRY(codec.decode_mean(senders, floats(bucket.gradient, part.range), part.count()));
    TALLY_TRY(send_back(part, bucket, step.number));
  }
  return {};
}

// float32 loses nothing on its way back, but takes the residual along.
Result<void> DeviceEncoding::send_back(const Part& part, const Bucket& bucket, std::uint64_t step) {
  float* const residual = floats(bucket.back_residual, part.range);
  if (part.back == nullptr || (is_plain(part, step) && residual == nullptr)) return {};
  DeviceCodec& codec = is_plain(part, step) ? *plain_ : *part.back;
  float* const mean = floats(bucket.gradient, part.range);
  TALLY_TRY(residual != nullptr
                ? codec.encode_with_feedback(mean, residual, part.count(), scratch_.data)
                : codec.encode(mean, part.count(), scratch_.data));
  TALLY_TRY(const std::size_t size, codec.encoded_bytes());
  return codec.decode({.bytes = scratch_.data, .size = size}, mean, part.count());
}

// Waits for the device. All codecs have one word, so one copy tells about all of them.
Result<void> DeviceEncoding::check(Deadline by) {
  TALLY_TRY(device_.wait(by));
  std::uint32_t damaged = 0;
  const auto word = std::as_writable_bytes(std::span(&damaged, 1));
  TALLY_TRY(device_.read(word, damaged_.data));
  if (damaged == 0) return {};
  damaged = 0;
  TALLY_TRY(device_.write(damaged_.data, word));
  return corrupt("codec={}: a rank has sent bytes that no encoder writes", plan::to_string(spec_));
}

std::vector<DeviceEncoding::StateArray> DeviceEncoding::arrays_of(const Bucket& bucket) const {
  std::vector<StateArray> arrays;
  if (bucket.momentum.data != nullptr) arrays.push_back({"momentum", bucket.momentum});
  if (bucket.residual.data != nullptr) arrays.push_back({"residual", bucket.residual});
  if (bucket.back_residual.data != nullptr) arrays.push_back({"back", bucket.back_residual});
  return arrays;
}

// The residual of the way back is the same on all ranks: each of them saves a part of it.
DeviceEncoding::HostState DeviceEncoding::plan_state(const Sender& self,
                                                     std::vector<const float*>& places) const {
  HostState state;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Range whole{0, model_.layout().buckets[b].count};
    const Range saved = part_of(whole, {.parts = self.of, .index = self.number, .first = b});
    for (const BucketLayout::Entry& entry : model_.layout().buckets[b].entries) {
      if (!is_compressed(spec_, update_.parameters[entry.parameter])) continue;
      const Range own = entry.range;
      for (const StateArray& array : arrays_of(buckets_[b])) {
        const bool is_back = &array.memory == &buckets_[b].back_residual;
        const Range cut{std::clamp(saved.begin, own.begin, own.end),
                        std::clamp(saved.end, own.begin, own.end)};
        const auto add = [&](const Range& range, bool is_saved_here) {
          if (range.empty()) return;
          state.memory.emplace_back(range.count());
          state.states.push_back({.parameter = entry.parameter,
                                  .name = array.name,
                                  .is_of_sender = !is_back,
                                  .is_saved_here = is_saved_here,
                                  .first = range.begin - own.begin,
                                  .values = state.memory.back()});
          places.push_back(floats(array.memory, range));
        };
        if (!is_back) {
          add(own, true);
          continue;
        }
        add({own.begin, cut.begin}, false);
        add(cut, true);
        add({cut.end, own.end}, false);
      }
    }
  }
  return state;
}

Result<DeviceEncoding::HostState> DeviceEncoding::read(const Sender& self) const {
  std::vector<const float*> places;
  HostState state = plan_state(self, places);
  std::vector<Device::Read> reads;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (state.states[i].is_saved_here)
      reads.push_back({.to = std::as_writable_bytes(state.states[i].values),
                       .from = reinterpret_cast<const std::byte*>(places[i])});
  TALLY_TRY(device_.read_all(reads));
  return state;
}

Result<void> DeviceEncoding::write(const HostState& state) {
  for (const CodecState& each : state.states) {
    const Layout::Place& place = model_.layout().place_of[each.parameter];
    for (const StateArray& array : arrays_of(buckets_[place.bucket]))
      if (each.name == array.name)
        TALLY_TRY(device_.write(array.memory.data + (place.begin + each.first) * sizeof(float),
                                std::as_bytes(each.values)));
  }
  return {};
}

// Only the residual of the way back.
Result<void> DeviceEncoding::spread_shared(Communicator& world, Rank root, Deadline by) {
  if (world.size() == 1) return {};
  for (const Bucket& bucket : buckets_) {
    if (bucket.back_residual.data == nullptr) continue;
    std::vector<std::byte> residual(bucket.back_residual.bytes);
    if (world.rank() == root) TALLY_TRY(device_.read(residual, bucket.back_residual.data));
    TALLY_TRY(world.broadcast(
        std::span(reinterpret_cast<std::uint8_t*>(residual.data()), residual.size()), root,
        {.by = by}));
    if (world.rank() != root) TALLY_TRY(device_.write(bucket.back_residual.data, residual));
  }
  return {};
}

std::size_t DeviceEncoding::bytes() const {
  std::size_t bytes = scratch_.bytes + ahead_.bytes + piece_table_.bytes;
  for (const Bucket& bucket : buckets_)
    bytes += bucket.gradient.bytes + bucket.momentum.bytes + bucket.residual.bytes +
             bucket.back_residual.bytes;
  return gather_ ? bytes + gather_->bytes() : bytes;
}

}  // namespace tally::exchange
