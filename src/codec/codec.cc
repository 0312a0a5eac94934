#include "codec/codec.h"

#include <functional>
#include <numeric>

#include "base/check.h"
#include "base/rng.h"
#include "codec/families.h"

namespace tally::codec {
namespace {

std::unique_ptr<Codec> make_inner(const plan::CodecSpec& spec, const Shape& shape) {
  switch (spec.kind) {
    case plan::Codec::kNone:
    case plan::Codec::kPowersgd:
    case plan::Codec::kAuto:
      return make_plain();
    case plan::Codec::kFp16:
    case plan::Codec::kBf16:
      return make_cast(spec.kind);
    case plan::Codec::kInt8:
      return make_int8(spec.block);
    case plan::Codec::kFp8:
      return make_fp8(spec.fp8, spec.block);
    case plan::Codec::kNatural:
      return make_natural();
    case plan::Codec::kQsgd:
      return make_qsgd(spec.bits, spec.block);
    case plan::Codec::kTernary:
      return make_ternary(spec.clip);
    case plan::Codec::kOnebit:
      return spec.by_column && shape.columns > 0 ? make_onebit(shape.columns, shape.first)
                                                 : make_onebit(spec.block);
    case plan::Codec::kSign:
    case plan::Codec::kOnebitAdam:
      return make_sign(spec.block);
    case plan::Codec::kTopk:
      return make_topk(spec.density, spec.exact);
    case plan::Codec::kDgc:
      return make_topk(spec.density, /*exact=*/false);
    case plan::Codec::kRandk:
      return make_randk(spec.density, /*scaled=*/!spec.feedback);
    case plan::Codec::kThreshold:
      return make_threshold(spec.threshold);
  }
  TALLY_UNREACHABLE();
  return nullptr;
}

bool is_sparse(plan::Codec kind) {
  return kind == plan::Codec::kTopk || kind == plan::Codec::kDgc || kind == plan::Codec::kRandk ||
         kind == plan::Codec::kThreshold;
}

}  // namespace

kernel::RandomKey key_of(const Draw& draw) {
  std::uint64_t mixed = Rng(draw.seed).next();
  for (const std::uint64_t word : {draw.step, std::uint64_t{draw.rank}, draw.first})
    mixed = Rng(mixed ^ word).next();
  return {.low = static_cast<std::uint32_t>(mixed),
          .high = static_cast<std::uint32_t>(mixed >> 32)};
}

std::unique_ptr<Codec> make_codec(const plan::CodecSpec& spec, const Shape& shape) {
  return make_staged(make_inner(spec, shape), spec.stage);
}

std::optional<plan::CodecSpec> broadcast_spec(const plan::CodecSpec& spec) {
  if (is_sparse(spec.kind) || (spec.kind == plan::Codec::kSign && spec.vote)) return std::nullopt;
  switch (spec.back) {
    case plan::Back::kInt8:
      return plan::CodecSpec{
          .kind = plan::Codec::kInt8, .block = 256, .feedback = true, .stage = spec.stage};
    case plan::Back::kBf16:
      return plan::CodecSpec{.kind = plan::Codec::kBf16, .stage = spec.stage};
    case plan::Back::kSame:
      break;
  }
  return spec;
}

BroadcastCodec make_broadcast_codec(const plan::CodecSpec& spec, const Shape& shape) {
  if (spec.kind == plan::Codec::kRandk)
    return {.codec = make_staged(make_randk_mean(spec.density), spec.stage)};
  if (is_sparse(spec.kind)) return {.codec = make_staged(make_nonzero(), spec.stage)};
  if (spec.kind == plan::Codec::kSign && spec.vote)
    return {.codec = make_staged(make_majority(spec.block), spec.stage)};
  const std::optional<plan::CodecSpec> back = broadcast_spec(spec);
  TALLY_CHECK(back.has_value());
  return {.codec = make_codec(*back, shape), .feedback = back->feedback};
}

bool is_compressed(const plan::CodecSpec& spec, std::span<const std::int64_t> shape) {
  if (spec.kind == plan::Codec::kNone) return false;
  // Only matrices have factors.
  if (spec.kind == plan::Codec::kPowersgd && shape.size() < 2) return false;
  if (spec.all) return true;
  const std::int64_t count =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return shape.size() >= 2 && static_cast<std::uint64_t>(count) >= spec.min_elements;
}

Shape shape_of(std::size_t columns, std::uint64_t element) {
  return {.columns = columns, .first = columns == 0 ? 0 : element % columns};
}

Shape shape_of(std::span<const std::int64_t> shape, std::uint64_t element) {
  if (shape.size() < 2) return {};
  const std::int64_t columns =
      std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  return shape_of(static_cast<std::size_t>(columns), element);
}

bool differs_by_run(const plan::CodecSpec& spec) {
  return spec.kind == plan::Codec::kOnebit && spec.by_column;
}

bool mean_differs_by_run(const plan::CodecSpec& spec) {
  return differs_by_run(spec) && spec.back == plan::Back::kSame;
}

}  // namespace tally::codec
