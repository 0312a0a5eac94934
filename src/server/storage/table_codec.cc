#include "server/storage/table_codec.h"

#include <algorithm>

#include "base/check.h"
#include "codec/encoder/encoder.h"
#include "codec/lowrank/factors.h"
#include "kernel/sparse/residual.h"
#include "server/protocol/message.h"
#include "server/storage/table_spec.h"

namespace tally::server {
namespace {

// The rank in the random draws of averages: no worker has it.
constexpr std::uint32_t kBack = 0xFFFFFFFF;

}  // namespace

Result<std::shared_ptr<const TableCodec>> TableCodec::make(const TableSpec& spec) {
  if (spec.codec.empty()) return std::shared_ptr<const TableCodec>();
  TALLY_TRY(const plan::CodecSpec codec, plan::parse_codec(spec.codec));
  TALLY_TRY(const policy::Rules rules, rules_of(spec));
  const bool in_step = rules.update == plan::Update::kBsp;
  const bool has_factors = codec.kind == plan::Codec::kPowersgd;
  if (has_factors && (!in_step || spec.columns == 0))
    return invalid("table '{}': powersgd needs update=bsp and columns", spec.name);
  return std::shared_ptr<const TableCodec>(new TableCodec(codec, spec, in_step));
}

TableCodec::TableCodec(const plan::CodecSpec& spec, const TableSpec& table, bool in_step)
    : spec_(spec),
      in_step_(in_step),
      columns_(table.columns),
      seed_(table.seed),
      first_element_(table.first_element) {
  const codec::Shape shape{.columns = table.columns};
  codec_ = codec::make_codec(spec, shape);
  if (in_step && spec.kind != plan::Codec::kPowersgd)
    back_ = codec::make_broadcast_codec(spec, shape);
  if (spec.kind == plan::Codec::kDgc) densest_ = codec::make_broadcast_codec(spec, shape).codec;
}

std::unique_ptr<codec::Codec> TableCodec::own_codec(std::uint64_t first) const {
  const codec::Shape shape = codec::shape_of(columns_, first);
  if (shape.first == 0 || !codec::differs_by_run(spec_)) return nullptr;
  return codec::make_codec(spec_, shape);
}

Result<void> TableCodec::decode(std::span<const std::byte> bytes, std::uint64_t first,
                                std::span<float> values) const {
  if (spec_.kind == plan::Codec::kPowersgd)
    return codec::decode_factors(
        bytes, {.columns = columns_, .first = first, .count = values.size()}, values);
  const std::unique_ptr<codec::Codec> own = own_codec(first);
  const codec::Codec& used = own ? *own : *codec_;
  std::size_t most = used.max_bytes(values.size());
  // dgc sends a larger share of the values during its warm-up.
  if (densest_ != nullptr) most = std::max(most, densest_->max_bytes(values.size()));
  if (bytes.size() > most)
    return corrupt("{} bytes for {} values, which {} has at most {} for", bytes.size(),
                   values.size(), plan::to_string(spec_), most);
  return used.decode(bytes, values);
}

void TableCodec::mean(std::span<const float* const> decoded, std::span<const double> weights,
                      bool plain, std::span<float> mean) const {
  TALLY_CHECK(!decoded.empty());
  if (plain) return codec::mean_of_decoded({}, decoded, weights, mean);
  // PowerSGD factors are of the mean already, and equal on all workers.
  if (spec_.kind == plan::Codec::kPowersgd) {
    std::copy_n(decoded.front(), mean.size(), mean.begin());
    return;
  }
  codec::mean_of_decoded(spec_, decoded, weights, mean);
}

std::vector<std::byte> TableCodec::send_back(const Place& place, std::span<float> mean,
                                             std::span<float> residual) const {
  TALLY_CHECK(goes_back());
  const std::unique_ptr<codec::Codec> own =
      codec::mean_differs_by_run(spec_) ? own_codec(place.first) : nullptr;
  const codec::Codec& used = codec::codec_at(spec_, own ? *own : *back_.codec, place.version);
  if (back_.feedback)
    for (std::size_t i = 0; i < mean.size(); ++i) residual[i] += mean[i];
  const std::span<const float> whole = back_.feedback ? std::span<const float>(residual) : mean;
  std::vector<std::byte> room(used.max_bytes(mean.size()));
  const codec::Draw draw{
      .seed = seed_, .step = place.version, .rank = kBack, .first = first_element_ + place.first};
  room.resize(used.encode(whole, draw, room));
  // As the workers do.
  TALLY_CHECK(used.decode(room, mean).has_value());
  if (back_.feedback) {
    for (std::size_t i = 0; i < mean.size(); ++i) residual[i] -= mean[i];
    // Values that are not finite were sent; they must not stay in the residual.
    kernel::residual_kernels().zero_nonfinite(residual.data(), residual.size());
  }
  return {room.begin(), room.end()};
}

}  // namespace tally::server
