#include "exchange/lane/sliced_bucket.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "kernel/sparse/residual.h"

// One step of a run on its lane:
//   first()     Each member encodes its mean of the run (Way::kThere) into the parcel for the
//               owner. An encoder adds its residual and keeps the new one. lane.exchange() delivers
//               the parcels to received_.
//   second()    make_means(): the owner decodes all parcels and averages them by weight.
//               encode_mean(): the owner adds back_residual and encodes the average (Way::kBack).
//               lane.gather() delivers it to averages_ of all members.
//   third()     Every member decodes all averages into step.values. The owner keeps the encoding
//               error in back_residual.
namespace tally::exchange {
namespace {

constexpr std::size_t kWeightBytes = sizeof(double);
constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
// The rank in draws for the way back, which belong to no sender.
constexpr std::uint32_t kOwner = std::numeric_limits<std::uint32_t>::max();

void put(std::vector<std::byte>& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void put(std::vector<std::byte>& out, std::span<const std::byte> encoding) {
  put(out, encoding.size(), kLengthBytes);
  out.insert(out.end(), encoding.begin(), encoding.end());
}

Error with_peer(Error error, Rank peer, const std::string& parameter) {
  error.peer = peer;
  error.message = fmt::format("the gradient of {}: {}", parameter, error.message);
  return error;
}

// The message of one sender about the runs of one owner.
struct Received {
  double weight = 0;
  wire::Reader rest;
};

Result<Received> open(std::span<const std::byte> parcel) {
  Received received{.rest = wire::Reader(parcel)};
  TALLY_TRY(const std::uint64_t bits, received.rest.u64());
  received.weight = std::bit_cast<double>(bits);
  if (std::isfinite(received.weight) && received.weight >= 0) return received;
  return corrupt("gradients of {} samples", received.weight);
}

Result<std::span<const std::byte>> next_encoding(wire::Reader& reader) {
  TALLY_TRY(const std::uint32_t bytes, reader.u32());
  return reader.bytes(bytes);
}

}  // namespace

SlicedBucket::SlicedBucket(const BucketFacts& facts)
    : parameters_(facts.parameters), local_(facts.local), seed_(facts.seed), self_(facts.self) {
  for (const Run& run : runs_of(facts.bucket, facts.local, facts.self.of, facts.number))
    add(facts, run);
}

const SlicedBucket::Ways& SlicedBucket::ways_of(const BucketFacts& facts, const Run& run) {
  const bool is_next = !ways_.empty() && ways_.back()->parameter == run.parameter;
  if (is_next && !codec::differs_by_run(ways_.back()->spec)) return *ways_.back();
  const ParameterInfo& info = parameters_[run.parameter];
  auto ways = std::make_unique<Ways>();
  ways->parameter = run.parameter;
  if (is_compressed(facts.spec, info)) ways->spec = facts.spec;
  const codec::Shape shape = codec::shape_of(info.shape, run.first);
  ways->there = codec::make_codec(ways->spec, shape);
  ways->back = codec::make_broadcast_codec(ways->spec, shape);
  ways_.push_back(std::move(ways));
  return *ways_.back();
}

void SlicedBucket::add(const BucketFacts& facts, const Run& run) {
  Part part{.run = run, .ways = &ways_of(facts, run)};
  part.element = first_element_of(parameters_, run.parameter) + run.first;
  const Ways& ways = *part.ways;
  if (ways.spec.kind != plan::Codec::kNone)
    part.encoder = codec::Encoder::make(ways.spec, *ways.there, run.count(),
                                        facts.senders[parameters_[run.parameter].group]);
  if (ways.back.feedback && run.owner == self_.number) part.back_residual.resize(run.count());
  parts_.push_back(std::move(part));
}

const codec::Codec& SlicedBucket::codec_of(const Part& part, Way way, std::uint64_t step) {
  const codec::Codec& codec = way == Way::kThere ? *part.ways->there : *part.ways->back.codec;
  return codec::codec_at(part.ways->spec, codec, step);
}

codec::Draw SlicedBucket::draw_of(const Part& part, Way way, std::uint64_t step) const {
  const auto sender = static_cast<std::uint32_t>(self_.number);
  return {.seed = seed_,
          .step = step,
          .rank = way == Way::kThere ? sender : kOwner,
          .first = part.element};
}

std::span<float> SlicedBucket::values_of(const Part& part, const LaneStep& step) const {
  float* const values = reinterpret_cast<float*>(step.values.data());
  return {values + (part.run.range.begin - local_.begin), part.run.count()};
}

std::vector<SlicedBucket::Part*> SlicedBucket::parts_of(int owner, const LaneStep& step) {
  std::vector<Part*> parts;
  for (Part& part : parts_)
    if (part.run.owner == owner && step.used[part.run.parameter] != 0) parts.push_back(&part);
  return parts;
}

// The size of dgc is not fixed: it sends more during its warm-up.
bool SlicedBucket::is_fixed(Way way, const LaneStep& step) const {
  return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.ways->spec.kind != plan::Codec::kDgc &&
           codec_of(part, way, step.step).traits().fixed_size;
  });
}

// The maximum size of one parcel; its exact size if is_fixed().
std::size_t SlicedBucket::most_bytes(Way way, const LaneStep& step, int owner) {
  const bool fixed = is_fixed(way, step);
  std::size_t bytes = way == Way::kThere ? kWeightBytes : 0;
  for (const Part* part : parts_of(owner, step)) {
    bytes += kLengthBytes;
    bytes += way == Way::kThere && part->encoder && !fixed
                 ? part->encoder->max_bytes()
                 : codec_of(*part, way, step.step).max_bytes(part->run.count());
  }
  return bytes;
}

Result<Delivery> SlicedBucket::first(Lane& lane, const LaneStep& step) {
  out_.clear();
  const bool fixed = is_fixed(Way::kThere, step);
  for (int owner = 0; owner < lane.size(); ++owner) {
    const std::size_t begin = out_.bytes.size();
    put(out_.bytes, std::bit_cast<std::uint64_t>(step.weight), kWeightBytes);
    for (Part* part : parts_of(owner, step)) {
      if (step.weight == 0) continue;
      const std::span<const float> values = values_of(*part, step);
      const codec::Codec& codec = codec_of(*part, Way::kThere, step.step);
      const codec::Draw draw = draw_of(*part, Way::kThere, step.step);
      const std::span<std::byte> bytes =
          lane.room(part->encoder ? part->encoder->max_bytes() : codec.max_bytes(values.size()));
      const std::size_t used = part->encoder ? part->encoder->encode(values, draw, bytes)
                                             : codec.encode(values, draw, bytes);
      put(out_.bytes, bytes.first(used));
    }
    const std::size_t most = most_bytes(Way::kThere, step, owner);
    TALLY_CHECK(out_.bytes.size() - begin <= most);
    if (fixed) out_.bytes.resize(begin + most);
    out_.sizes.push_back(out_.bytes.size() - begin);
  }
  const std::size_t most = most_bytes(Way::kThere, step, lane.self());
  return lane.exchange(
      out_, {.at_most = std::vector<std::size_t>(out_.sizes.size(), most), .exactly = fixed},
      received_);
}

Result<Delivery> SlicedBucket::second(Lane& lane, const LaneStep& step) {
  TALLY_TRY(make_means(lane, step));
  out_.clear();
  for (Part* part : parts_of(lane.self(), step)) encode_mean(*part, lane, step);
  ParcelSizes sizes{.exactly = is_fixed(Way::kBack, step)};
  for (int owner = 0; owner < lane.size(); ++owner)
    sizes.at_most.push_back(most_bytes(Way::kBack, step, owner));
  const std::size_t most = sizes.at_most[static_cast<std::size_t>(lane.self())];
  TALLY_CHECK(out_.bytes.size() <= most);
  if (sizes.exactly) out_.bytes.resize(most);
  return lane.gather(out_.bytes, sizes, averages_);
}

// For the runs that this member owns.
Result<void> SlicedBucket::make_means(const Lane& lane, const LaneStep& step) {
  std::vector<Received> senders;
  for (int member = 0; member < lane.size(); ++member) {
    auto received = open(received_.of(member));
    if (!received) return with_peer(received.error(), lane.rank_of(member), "a bucket");
    senders.push_back(*received);
  }
  std::vector<codec::Encoded> encoded(senders.size());
  for (Part* part : parts_of(lane.self(), step)) {
    const std::string& name = parameters_[part->run.parameter].name;
    for (std::size_t m = 0; m < senders.size(); ++m) {
      encoded[m] = {.weight = senders[m].weight};
      if (senders[m].weight == 0) continue;
      const auto bytes = next_encoding(senders[m].rest);
      if (!bytes) return with_peer(bytes.error(), lane.rank_of(static_cast<int>(m)), name);
      encoded[m].bytes = *bytes;
    }
    const plan::CodecSpec& spec = part->ways->spec;
    const auto made =
        codec::mean_of(codec::is_plain_at(spec, step.step) ? plan::CodecSpec() : spec,
                       codec_of(*part, Way::kThere, step.step), encoded, values_of(*part, step));
    if (!made) return with_peer(made.error(), who_is_corrupt(*part, lane, encoded, step), name);
  }
  for (std::size_t m = 0; m < senders.size() && !is_fixed(Way::kThere, step); ++m)
    if (const auto end = senders[m].rest.end(); !end)
      return with_peer(end.error(), lane.rank_of(static_cast<int>(m)), "a bucket");
  return {};
}

// The first sender whose bytes cannot be decoded.
Rank SlicedBucket::who_is_corrupt(const Part& part, const Lane& lane,
                                  std::span<const codec::Encoded> senders, const LaneStep& step) {
  std::vector<float> values(part.run.count());
  for (std::size_t m = 0; m < senders.size(); ++m)
    if (senders[m].weight > 0 &&
        !codec_of(part, Way::kThere, step.step).decode(senders[m].bytes, values))
      return lane.rank_of(static_cast<int>(m));
  return kNoRank;
}

// Stores the value before encoding in back_residual; third() subtracts the decoded value.
void SlicedBucket::encode_mean(Part& part, Lane& lane, const LaneStep& step) {
  const std::span<float> mean = values_of(part, step);
  for (std::size_t i = 0; i < part.back_residual.size(); ++i) {
    mean[i] += part.back_residual[i];
    part.back_residual[i] = mean[i];
  }
  const codec::Codec& codec = codec_of(part, Way::kBack, step.step);
  const std::span<std::byte> bytes = lane.room(codec.max_bytes(mean.size()));
  const std::size_t used = codec.encode(mean, draw_of(part, Way::kBack, step.step), bytes);
  put(out_.bytes, bytes.first(used));
}

Result<void> SlicedBucket::third(const Lane& lane, const LaneStep& step) {
  for (Part& part : parts_) {
    const std::span<float> values = values_of(part, step);
    if (step.used[part.run.parameter] == 0) std::fill(values.begin(), values.end(), 0.0F);
  }
  for (int owner = 0; owner < lane.size(); ++owner) {
    wire::Reader parcel(averages_.of(owner));
    for (Part* part : parts_of(owner, step)) {
      const std::span<float> average = values_of(*part, step);
      const auto bytes = next_encoding(parcel);
      const auto decoded = bytes ? codec_of(*part, Way::kBack, step.step).decode(*bytes, average)
                                 : Result<void>(bytes.error());
      if (!decoded)
        return with_peer(decoded.error(), lane.rank_of(owner),
                         parameters_[part->run.parameter].name);
      for (std::size_t i = 0; i < part->back_residual.size(); ++i)
        part->back_residual[i] -= average[i];
      // Values that are not finite have reached all members and must not be sent again.
      kernel::residual_kernels().zero_nonfinite(part->back_residual.data(),
                                                part->back_residual.size());
      if (part->encoder)
        part->encoder->observe_mean(average, draw_of(*part, Way::kThere, step.step));
    }
    if (const auto end = parcel.end(); !end && !is_fixed(Way::kBack, step))
      return with_peer(end.error(), lane.rank_of(owner), "a bucket");
  }
  return {};
}

std::vector<CodecState> SlicedBucket::states() {
  std::vector<CodecState> states;
  for (Part& part : parts_) {
    const CodecState state{.parameter = part.run.parameter, .first = part.run.first};
    if (part.encoder) {
      for (const codec::Encoder::State& own : part.encoder->states()) {
        states.push_back(state);
        states.back().name = own.name;
        states.back().values = own.values;
      }
    }
    if (part.back_residual.empty()) continue;
    states.push_back(state);
    states.back().name = "back";
    states.back().is_of_sender = false;
    states.back().values = part.back_residual;
  }
  return states;
}

}  // namespace tally::exchange
