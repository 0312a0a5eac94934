#include "exchange/server/coded_table.h"

#include <algorithm>
#include <utility>

#include "codec/lowrank/factors.h"
#include "kernel/array/weighted_sum.h"
#include "optimizer/update_rule.h"

namespace tally::exchange {
namespace {

ServerClient::FinishOptions how_of(std::uint32_t part,
                                   std::span<const ServerClient::FinishOptions> finish) {
  return finish.empty() ? ServerClient::FinishOptions() : finish[part];
}

// Returns null unless the codec is powersgd, which encodes the parameter as one matrix instead of
// part by part.
std::unique_ptr<codec::PowerSgd> make_matrix(const CodedTable::Options& options) {
  if (options.spec.kind != plan::Codec::kPowersgd) return nullptr;
  const std::size_t columns = codec::shape_of(options.shape).columns;
  return std::make_unique<codec::PowerSgd>(
      codec::PowerSgd::Options{.rows = options.count / columns,
                               .columns = columns,
                               .rank = options.spec.rank,
                               .seed = factor_seed(options.seed, options.first_element)});
}

}  // namespace

CodedTable::CodedTable(const Options& options)
    : options_(options), matrix_(make_matrix(options)), averages_(parts()) {
  if (in_step())
    state_.assign(
        static_cast<std::size_t>(optimizer::state_arrays(options.optimizer)),
        std::vector<float>(options.count,
                           static_cast<float>(optimizer::initial_state(options.optimizer))));
  if (matrix_ != nullptr) return;
  // `there` encodes this worker's gradients, `back` decodes the averages of the servers. All parts
  // share the codecs of part 0 unless the codec depends on where a part begins.
  for (std::uint32_t part = 0; part < parts(); ++part) {
    if (part == 0 || codec::differs_by_run(options.spec)) {
      const auto shape = codec::shape_of(options.shape, part * options.part_elements);
      ways_.push_back({.there = codec::make_codec(options.spec, shape),
                       .back = codec::make_broadcast_codec(options.spec, shape).codec});
    }
    encoders_.push_back(codec::Encoder::make(options.spec, *ways_.back().there, size_of_part(part),
                                             options.sender));
  }
}

// With update=bsp a rank encodes one gradient per version. Otherwise it may encode several, and the
// clock in the seed gives each of them different random numbers; with randk, each is a turn.
codec::Draw CodedTable::draw_of(std::uint32_t part, const server::PushOptions& push,
                                std::uint64_t step) const {
  const plan::CodecSpec& spec = options_.spec;
  const bool takes_turns =
      !in_step() && spec.kind == plan::Codec::kRandk && !codec::is_plain_at(spec, step);
  return {.seed = in_step() || takes_turns ? options_.seed : options_.seed + push.clock,
          .step = takes_turns ? std::max(spec.warmup, push.clock) : step,
          .rank = static_cast<std::uint32_t>(options_.rank),
          .first = options_.first_element + part * options_.part_elements};
}

void CodedTable::encode(std::uint32_t part, std::span<const float> gradient,
                        const server::PushOptions& push, std::uint64_t step,
                        std::vector<std::byte>& message) {
  message.clear();
  // A worker without samples sends an empty message, and its encoder state stays as it is.
  if (push.weight == 0) return;
  if (is_low_rank()) {
    const auto bytes = std::as_bytes(part_of(gradient, part));
    message.assign(bytes.begin(), bytes.end());
    return;
  }
  codec::Encoder& encoder = *encoders_[part];
  if (room_.size() < encoder.max_bytes()) room_.resize(encoder.max_bytes());
  const std::size_t used =
      encoder.encode(part_of(gradient, part), draw_of(part, push, step), room_);
  message.assign(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(used));
}

void CodedTable::take_back(std::uint32_t part, std::span<const std::byte> message) {
  if (!message.empty()) encoders_[part]->take_back(message);
}

Result<void> CodedTable::follow(ServerClient& client, std::uint32_t first, std::uint32_t count,
                                std::span<float> next, const server::PushOptions& push) {
  for (std::uint32_t part = first; part < first + count; ++part) {
    if (!averages_[part].is_average) {
      TALLY_TRY(read_state(client, part, 1));
      continue;
    }
    const Ways& ways = ways_.size() == 1 ? ways_.front() : ways_[part];
    const codec::Codec& back = codec::codec_at(options_.spec, *ways.back, push.version);
    TALLY_TRY(back.decode(averages_[part].bytes, part_of(next, part)));
  }
  return {};
}

void CodedTable::apply(std::uint32_t first, std::uint32_t count, std::span<const float> present,
                       std::span<float> next, const server::PushOptions& push,
                       std::span<const ServerClient::FinishOptions> finish) {
  for (std::uint32_t part = first; part < first + count; ++part) {
    if (!averages_[part].is_average) continue;
    const std::span<const float> average = part_of(next, part);
    const ServerClient::FinishOptions how = how_of(part, finish);
    scratch_.assign(average.begin(), average.end());
    if (!how.discards) encoders_[part]->observe_mean(scratch_, draw_of(part, push, push.version));
    apply_part(part, scratch_, present, next, push, how);
  }
}

void CodedTable::apply_part(std::uint32_t part, std::span<float> average,
                            std::span<const float> present, std::span<float> next,
                            const server::PushOptions& push,
                            const ServerClient::FinishOptions& finish) {
  const std::span<const float> from = part_of(present, part);
  optimizer::Segment<float> segment{
      .parameters = part_of(next, part), .gradient = average, .state = {}};
  std::copy(from.begin(), from.end(), segment.parameters.begin());
  if (finish.discards) return;
  for (std::size_t k = 0; k < state_.size(); ++k)
    segment.state[k] = part_of(std::span(state_[k]), part);
  if (options_.clip_value > 0)
    kernel::clamp(average.data(), average.size(), static_cast<float>(options_.clip_value));
  if (finish.factor != 1)
    kernel::scale(average.data(), average.size(), static_cast<float>(finish.factor));
  const optimizer::StepFacts step{.step = push.version + 1, .rate = *push.rate};
  if (!optimizer::is_layerwise(options_.optimizer))
    return optimizer::update(options_.optimizer, step, segment);
  optimizer::prepare(options_.optimizer, step, segment);
  optimizer::finish(options_.optimizer, step,
                    {.parameters = finish.value_norm, .gradient = finish.gradient_norm}, segment);
}

Result<void> CodedTable::read_state(ServerClient& client, std::uint32_t first,
                                    std::uint32_t count) {
  if (count == 0) return {};
  const std::size_t begin = first * options_.part_elements;
  const std::size_t end =
      std::min(options_.count, (std::size_t{first} + count) * options_.part_elements);
  Read read{.range = {.table = options_.table, .first = first, .count = count}, .state = {}};
  for (std::size_t k = 0; k < state_.size(); ++k) {
    std::vector<float>& array = read.state.emplace_back(end - begin);
    TALLY_TRY(client.read_state(read.range, static_cast<int>(k),
                                std::as_writable_bytes(std::span(array)), kTableLimit));
  }
  read_.push_back(std::move(read));
  return {};
}

// The encoder of onebit-adam keeps a copy of the optimizer's first state array, the running mean of
// the gradients, under the name "mean".
void CodedTable::adopt() {
  for (const auto& [range, arrays] : std::exchange(read_, {})) {
    for (std::size_t k = 0; k < state_.size(); ++k)
      std::copy(arrays[k].begin(), arrays[k].end(),
                state_[k].data() + range.first * options_.part_elements);
    if (options_.spec.kind != plan::Codec::kOnebitAdam) continue;
    for (std::uint32_t part = range.first; part < range.first + range.count; ++part)
      for (const codec::Encoder::State& state : encoders_[part]->states()) {
        const std::span<const float> mean = part_of(std::span(state_[0]), part);
        if (state.name == "mean") std::copy(mean.begin(), mean.end(), state.values.begin());
      }
  }
}

void CodedTable::encode_factors(std::span<const float> left, std::span<const float> right,
                                Messages& messages) const {
  const std::size_t columns = codec::shape_of(options_.shape).columns;
  const codec::Factors factors{.rows = options_.count / columns,
                               .rank = static_cast<std::size_t>(matrix_->rank()),
                               .left = left,
                               .right = right};
  for (std::uint32_t part = 0; part < parts(); ++part) {
    const codec::FactorRun run{
        .columns = columns, .first = part * options_.part_elements, .count = size_of_part(part)};
    messages[part].resize(codec::factor_bytes(run, factors.rank));
    codec::encode_factors(factors, run, messages[part]);
  }
}

void CodedTable::apply_mean(std::span<float> mean, std::span<const float> present,
                            std::span<float> next, const server::PushOptions& push,
                            std::span<const ServerClient::FinishOptions> finish) {
  for (std::uint32_t part = 0; part < parts(); ++part)
    apply_part(part, part_of(mean, part), present, next, push, how_of(part, finish));
}

std::vector<CodecState> CodedTable::states() {
  std::vector<CodecState> states;
  if (matrix_ != nullptr) {
    if (options_.spec.feedback)
      states.push_back(
          {.parameter = options_.parameter, .name = "residual", .values = matrix_->residual()});
    states.push_back({.parameter = options_.parameter,
                      .name = "q",
                      .is_of_sender = false,
                      .values = matrix_->q()});
    return states;
  }
  for (std::uint32_t part = 0; part < parts(); ++part)
    for (const codec::Encoder::State& state : encoders_[part]->states())
      states.push_back({.parameter = options_.parameter,
                        .name = state.name,
                        .first = part * options_.part_elements,
                        .values = state.values});
  return states;
}

}  // namespace tally::exchange
