#include "bench/codec/measure.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "bench/codec/harness.h"
#include "bench/common/clocks.h"
#include "codec/codec.h"
#include "codec/encoder/encoder.h"

namespace tally::bench::codecs {
namespace {

// Later than all warm-ups.
constexpr std::uint64_t kStep = 1'000'000;
constexpr std::size_t kLine = 64;
// Runs for measuring error feedback, where speed does not matter.
constexpr std::size_t kFeedbackRuns = 16;

std::size_t line_up(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

codec::Draw draw_of(const Run& run, std::uint64_t step) {
  return {.seed = 7, .step = step, .rank = 0, .first = run.first};
}

class Trial final {
 public:
  Trial(const plan::CodecSpec& spec, const Input& input)
      : spec_(spec), input_(input), runs_(runs_of(input)), decoded_(input.values.size()) {
    std::size_t bytes = 0;
    for (const Run& run : runs_) {
      auto& codec = codecs_[run.columns];
      if (!codec) codec = codec::make_codec(spec, {.columns = run.columns});
      std::size_t most = codec->max_bytes(run.count);
      if (spec.feedback) {
        senders_.push_back(codec::Encoder::make(spec, *codec, run.count));
        most = std::max(most, senders_.back()->max_bytes());
      }
      bytes += line_up(most);
    }
    bytes_.resize(bytes);
    encoded_.resize(runs_.size());
  }

  Result<void> check();
  void measure(int repeats, Measurement& result);
  double feedback_error();
  double error() const { return relative_error(input_.values, decoded_); }
  double bytes_per_value() const {
    std::size_t bytes = 0;
    for (const auto& encoded : encoded_) bytes += encoded.size();
    return static_cast<double>(bytes) / static_cast<double>(input_.values.size());
  }

 private:
  const codec::Codec& codec_of(const Run& run) const { return *codecs_.at(run.columns); }
  std::span<const float> values_of(const Run& run) const {
    return std::span(input_.values).subspan(run.first, run.count);
  }
  std::span<float> decoded_of(const Run& run) {
    return std::span(decoded_).subspan(run.first, run.count);
  }
  // Encodings are consecutive, as in a message.
  template <typename Encode>
  void encode_all(Encode&& encode) {
    std::span<std::byte> room(bytes_);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      encoded_[i] = room.first(encode(i, room));
      room = room.subspan(line_up(encoded_[i].size()));
    }
  }
  void encode_all() {
    encode_all([this](std::size_t i, std::span<std::byte> room) {
      return codec_of(runs_[i]).encode(values_of(runs_[i]), draw_of(runs_[i], kStep), room);
    });
  }
  Result<void> decode_all() {
    for (std::size_t i = 0; i < runs_.size(); ++i)
      TALLY_TRY(codec_of(runs_[i]).decode(encoded_[i], decoded_of(runs_[i])));
    return {};
  }
  Result<void> add_all() {
    for (std::size_t i = 0; i < runs_.size(); ++i)
      TALLY_TRY(codec_of(runs_[i]).decode_add(encoded_[i], 0.5F, decoded_of(runs_[i])));
    return {};
  }
  Error wrong(const Run& run, const std::string& what) const {
    return {.code = ErrorCode::kCorrupt,
            .message = fmt::format("{} on {}: {} in the run that begins at {}",
                                   plan::to_string(spec_), input_.name, what, run.first)};
  }

  const plan::CodecSpec spec_;
  const Input& input_;
  const std::vector<Run> runs_;
  std::map<std::size_t, std::unique_ptr<codec::Codec>> codecs_;  // by columns
  std::vector<std::unique_ptr<codec::Encoder>> senders_;
  std::vector<std::byte> bytes_;
  std::vector<std::span<const std::byte>> encoded_;
  std::vector<float> decoded_;
};

Result<void> Trial::check() {
  encode_all();
  TALLY_TRY(decode_all());
  const std::vector<float> first = decoded_;
  std::fill(decoded_.begin(), decoded_.end(), 1.0F);
  TALLY_TRY(decode_all());
  for (const Run& run : runs_) {
    const auto decoded = decoded_of(run);
    if (!std::equal(decoded.begin(), decoded.end(), first.begin() + static_cast<long>(run.first)))
      return wrong(run, "a second decoding differs");
    const std::size_t block = spec_.by_column && run.columns > 0 ? run.columns : spec_.block;
    if (first_out_of_bounds(spec_, block, values_of(run), decoded))
      return wrong(run, "an error beyond its bounds");
  }
  TALLY_TRY(add_all());  // half of itself on top
  for (const Run& run : runs_)
    for (std::size_t i = run.first; i < run.first + run.count; ++i)
      if (std::abs(decoded_[i] - 1.5F * first[i]) > 1e-5F * std::abs(first[i]))
        return wrong(run, "decode-add and decode disagree");
  return decode_all();
}

void Trial::measure(int repeats, Measurement& result) {
  // Decoding cannot fail after check().
  std::vector<Work> works = {{&Measurement::encode, [this] { encode_all(); }},
                             {&Measurement::decode, [this] { (void)decode_all().has_value(); }},
                             {&Measurement::decode_add, [this] { (void)add_all().has_value(); }}};
  const auto send = [this](std::size_t i, std::span<std::byte> room) {
    return senders_[i]->encode(values_of(runs_[i]), draw_of(runs_[i], kStep), room);
  };
  if (!senders_.empty()) works.push_back({&Measurement::send, [&] { encode_all(send); }});
  time_all(input_, decoded_, repeats, works, result);
}

double Trial::feedback_error() {
  std::vector<float> sent;
  std::vector<float> wanted;
  for (std::size_t i = 0; i < std::min(runs_.size(), kFeedbackRuns); ++i) {
    const Run& run = runs_[i];
    const auto sender = codec::Encoder::make(spec_, codec_of(run), run.count);
    std::vector<float> mean(run.count, 0.0F);
    for (int step = 0; step < kFeedbackSteps; ++step) {
      const std::size_t used = sender->encode(
          values_of(run), draw_of(run, kStep + static_cast<std::uint64_t>(step)), bytes_);
      const auto added =
          codec_of(run).decode_add(std::span(bytes_).first(used), 1.0F / kFeedbackSteps, mean);
      if (!added) std::fill(mean.begin(), mean.end(), std::numeric_limits<float>::quiet_NaN());
    }
    sent.insert(sent.end(), mean.begin(), mean.end());
    wanted.insert(wanted.end(), values_of(run).begin(), values_of(run).end());
  }
  return relative_error(wanted, sent);
}

}  // namespace

double gb_per_s(std::size_t bytes, const std::function<void()>& work) {
  const double start = seconds_on(CLOCK_THREAD_CPUTIME_ID);
  work();
  return static_cast<double>(bytes) / 1e9 / (seconds_on(CLOCK_THREAD_CPUTIME_ID) - start);
}

void time_all(const Input& input, std::span<float> out, int repeats, const std::vector<Work>& works,
              Measurement& result) {
  const std::vector<Run> runs = runs_of(input);
  const std::size_t bytes = input.values.size() * sizeof(float);
  for (int i = 0; i < repeats; ++i) {
    const double copy = gb_per_s(bytes, [&] {
      for (const Run& run : runs) {
        std::memcpy(&out[run.first], &input.values[run.first], run.count * sizeof(float));
        // Keeps the compiler from dropping unread writes.
        asm volatile("" : : "r"(out.data()) : "memory");
      }
    });
    result.copy_gb_per_s.push_back(copy);
    for (const Work& work : works) {
      const double speed = gb_per_s(bytes, work.run);
      (result.*work.speed).gb_per_s.push_back(speed);
      (result.*work.speed).share.push_back(speed / copy);
    }
  }
}

Result<Measurement> measure(const plan::CodecSpec& spec, const Input& input, int repeats) {
  if (spec.kind == plan::Codec::kPowersgd) return measure_powersgd(spec, input, repeats);
  Trial trial(spec, input);
  TALLY_TRY(trial.check());
  Measurement result{.codec = plan::to_string(spec),
                     .input = input.name,
                     .elements = input.values.size(),
                     .bytes_per_value = trial.bytes_per_value(),
                     .error = trial.error()};
  // onebit-adam sends momentum, which differs from its input.
  if (spec.feedback && spec.kind != plan::Codec::kOnebitAdam)
    result.error_with_feedback = trial.feedback_error();
  trial.measure(repeats, result);
  return result;
}

}  // namespace tally::bench::codecs
