#pragma once
// For tests of tables with a codec: one update as documented, one run of values at a time, without
// a server.
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "codec/codec.h"
#include "codec/encoder/encoder.h"
#include "optimizer/update_rule.h"
#include "plan/codec_spec.h"
#include "tally/server.h"

namespace tally::server::test {

// Encodes a gradient of the whole table, without error feedback. The random draw starts at the
// spec's first_element.
inline std::vector<std::byte> encoded(const TableSpec& spec, const std::vector<float>& gradient,
                                      codec::Draw draw) {
  const auto parsed = plan::parse_codec(spec.codec);
  TALLY_CHECK(parsed.has_value());
  const auto codec = codec::make_codec(*parsed, {.columns = spec.columns});
  draw.first = spec.first_element;
  std::vector<std::byte> bytes(codec->max_bytes(gradient.size()));
  bytes.resize(codec->encode(gradient, draw, bytes));
  return bytes;
}

// The values of a table of one part and its optimizer state, initially zero.
class Follower final {
 public:
  // `before`: the number of values of the same tensor that lie in other tables.
  Follower(const TableSpec& spec, std::size_t count, std::size_t before = 0)
      : spec_(spec),
        codec_spec_(*plan::parse_codec(spec.codec)),
        codec_(codec::make_codec(codec_spec_, codec::shape_of(spec.columns, before))),
        back_(codec::make_broadcast_codec(codec_spec_, codec::shape_of(spec.columns, before))),
        values_(count),
        first_(count),
        second_(count),
        residual_(count) {}

  const std::vector<float>& values() const { return values_; }
  std::vector<float>& values() { return values_; }
  std::vector<float>& state(int array) { return array == 0 ? first_ : second_; }

  // The whole update, from the senders' messages.
  void update(const std::vector<std::vector<std::byte>>& messages,
              const std::vector<double>& weights, std::uint64_t version, double rate) {
    std::vector<codec::Encoded> senders;
    for (std::size_t i = 0; i < messages.size(); ++i)
      senders.push_back({.bytes = messages[i], .weight = weights[i]});
    std::vector<float> mean(values_.size());
    TALLY_CHECK(codec::mean_of(codec_spec_, *codec_, senders, mean).has_value());
    send_back(mean, version, rate);
  }
  // The update from the mean on.
  void send_back(std::vector<float> mean, std::uint64_t version, double rate) {
    if (back_.feedback)
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += residual_[i];
    std::vector<std::byte> bytes(back_.codec->max_bytes(mean.size()));
    bytes.resize(back_.codec->encode(
        mean,
        {.seed = spec_.seed, .step = version, .rank = 0xFFFFFFFF, .first = spec_.first_element},
        bytes));
    const std::vector<float> average = follow(bytes, version, rate);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      residual_[i] = mean[i] - average[i];
      if (!std::isfinite(residual_[i])) residual_[i] = 0;
    }
  }
  // Applies a received average, as a worker does.
  std::vector<float> follow(std::span<const std::byte> bytes, std::uint64_t version, double rate) {
    std::vector<float> average(values_.size());
    TALLY_CHECK(back_.codec->decode(bytes, average).has_value());
    std::vector<float> gradient = average;
    optimizer::update<float>(
        spec_.optimizer, {.step = version + 1, .rate = rate},
        {.parameters = values_, .gradient = gradient, .state = {first_, second_}});
    return average;
  }

 private:
  const TableSpec spec_;
  const plan::CodecSpec codec_spec_;
  const std::unique_ptr<codec::Codec> codec_;
  const codec::BroadcastCodec back_;
  std::vector<float> values_;
  std::vector<float> first_;
  std::vector<float> second_;
  std::vector<float> residual_;
};

}  // namespace tally::server::test
