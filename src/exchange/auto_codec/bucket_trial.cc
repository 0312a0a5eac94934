#include "exchange/auto_codec/bucket_trial.h"

#include <algorithm>

#include "codec/codec.h"
#include "exchange/auto_codec/codec_trial.h"
#include "exchange/lane/codec_state.h"

// try_on() splits the lane's part of the bucket into compressed and plain elements (Portion). It
// times the codec on one sample of the compressed elements, and scales time and bytes by compressed
// / sample. Plain elements count as float32. A member sends (hosts - 1) / hosts of all bytes.
namespace tally::exchange {
namespace {

// Elements of a matrix in a trial: more than the caches hold.
constexpr std::size_t kMatrixElements = std::size_t{1} << 20;

// The elements of a lane's part of a bucket by their treatment, and the sample for the trial.
struct Portion {
  bool is_any_compressed = false;  // anywhere in the bucket
  std::size_t compressed = 0;
  std::size_t plain = 0;
  std::size_t factors = 0;    // powersgd: elements of all factors
  bool is_cut = false;        // the part has only a part of some tensor
  Range sample;               // in the bucket
  std::size_t parameter = 0;  // that has the sample
};

std::size_t sample_of(const plan::CodecSpec& spec, const ParameterInfo& info, std::size_t count) {
  if (spec.kind != plan::Codec::kPowersgd) return std::min(count, codec::kRunElements);
  const std::size_t columns = matrix_of(spec, info).columns;
  return std::min(count, std::max<std::size_t>(kMatrixElements / columns, 1) * columns);
}

Portion portion_of(const BucketTrial& trial) {
  Portion portion;
  for (const BucketLayout::Entry& entry : trial.bucket.entries) {
    const ParameterInfo& info = trial.parameters[entry.parameter];
    const bool compressed =
        trial.spec.kind != plan::Codec::kNone && is_compressed(trial.spec, info);
    portion.is_any_compressed = portion.is_any_compressed || compressed;
    const Range common{std::max(entry.range.begin, trial.local.begin),
                       std::min(entry.range.end, trial.local.end)};
    if (common.begin >= common.end) continue;
    portion.is_cut = portion.is_cut || common.count() < entry.range.count();
    if (!compressed) {
      portion.plain += common.count();
      continue;
    }
    portion.compressed += common.count();
    const Matrix matrix = matrix_of(trial.spec, info);
    portion.factors += matrix.rank * (matrix.rows + matrix.columns);
    const std::size_t sample = sample_of(trial.spec, info, common.count());
    if (sample <= portion.sample.count()) continue;
    portion.sample = {common.begin, common.begin + sample};
    portion.parameter = entry.parameter;
  }
  return portion;
}

}  // namespace

std::optional<codec::Candidate> try_on(const BucketTrial& trial, std::span<const float> gradient,
                                       const Clock& clock) {
  const Portion portion = portion_of(trial);
  const bool by_matrix = trial.spec.kind == plan::Codec::kPowersgd;
  if (!portion.is_any_compressed || (by_matrix && portion.is_cut)) return std::nullopt;
  const double others = (trial.hosts - 1.0) / trial.hosts;
  const double plain = 2.0 * sizeof(float) * static_cast<double>(portion.plain);
  codec::Candidate candidate{.text = plan::to_string(trial.spec),
                             .bytes = static_cast<std::size_t>(others * plain)};
  // Other lanes have the compressed parameters.
  if (portion.compressed == 0) return candidate;
  const std::span<const float> sample =
      gradient.subspan(portion.sample.begin - trial.local.begin, portion.sample.count());
  // The cost of all zeros is not typical.
  if (std::all_of(sample.begin(), sample.end(), [](float value) { return value == 0; }))
    return std::nullopt;
  const double samples =
      static_cast<double>(portion.compressed) / static_cast<double>(sample.size());
  const ParameterInfo& info = trial.parameters[portion.parameter];
  if (by_matrix) {
    const std::size_t columns = matrix_of(trial.spec, info).columns;
    const TrialCosts costs = try_powersgd({.rows = sample.size() / columns,
                                           .columns = columns,
                                           .rank = trial.spec.rank,
                                           .seed = trial.seed},
                                          sample, clock);
    const double factors = 2.0 * sizeof(float) * static_cast<double>(portion.factors);
    candidate.bytes = static_cast<std::size_t>(others * (factors + plain));
    // Two sums, each there and back.
    candidate.messages = 4;
    candidate.codec_seconds = samples * costs.seconds;
    return candidate;
  }
  const TrialCosts costs = try_codec({.spec = trial.spec,
                                      .shape = codec::shape_of(info.shape),
                                      .senders = trial.hosts,
                                      .seed = trial.seed},
                                     sample, clock);
  candidate.bytes =
      static_cast<std::size_t>(others * (samples * (costs.there_bytes + costs.back_bytes) + plain));
  // Without a fixed size the members exchange sizes first.
  candidate.messages = costs.fixed_size ? 2 : 4;
  candidate.codec_seconds = samples * costs.seconds;
  return candidate;
}

}  // namespace tally::exchange
