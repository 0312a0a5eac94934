#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/encoder/encoder.h"
#include "codec/lowrank/powersgd.h"
#include "exchange/lane/codec_state.h"
#include "exchange/server/server_client.h"
#include "plan/codec_spec.h"
#include "tally/optimizer.h"

namespace tally::exchange {

// A parameter whose gradients go to its table encoded, and the state that this worker keeps for it:
// the encoder state of each part, which is a run of the codec, and with update=bsp the optimizer
// state of its own copy, to which it applies the averages bit for bit as servers do.
// Threads: calls must not overlap.
class CodedTable final {
 public:
  struct Options {
    std::size_t parameter = 0;
    plan::CodecSpec spec;
    std::vector<std::int64_t> shape;  // of the parameter
    codec::SenderFacts sender;
    std::uint64_t seed = 1;
    std::uint64_t first_element = 0;  // the parameter's first element in the model
    int rank = 0;
    server::TableId table = 0;
    OptimizerSpec optimizer;
    std::size_t count = 0;  // elements
    std::size_t part_elements = 0;
    double clip_value = 0;  // of the averages; 0: none
    bool in_step = false;   // update=bsp: this worker updates its own copy
  };
  explicit CodedTable(const Options& options);

  std::uint32_t parts() const {
    return static_cast<std::uint32_t>((options_.count + options_.part_elements - 1) /
                                      options_.part_elements);
  }
  bool is_low_rank() const { return matrix_ != nullptr; }
  bool in_step() const { return options_.in_step; }

  // One message per part; memory of a gradient in flight.
  using Messages = std::vector<std::vector<std::byte>>;

  // Whether the push of this step has plain gradients (a warm-up).
  bool is_plain_at(std::uint64_t step) const { return codec::is_plain_at(options_.spec, step); }
  // Encodes one part for the push of a step; a push without weight has empty messages. powersgd:
  // only during the warm-up. `gradient` is that of the whole parameter.
  void encode(std::uint32_t part, std::span<const float> gradient, const server::PushOptions& push,
              std::uint64_t step, std::vector<std::byte>& message);
  // Servers have dropped the encoded gradient of a part: it is added to the next one.
  void take_back(std::uint32_t part, std::span<const std::byte> message);
  // Memory for the averages of parts; it must not move.
  std::span<ServerClient::Average> averages(std::uint32_t first, std::uint32_t count) {
    return std::span(averages_).subspan(first, count);
  }
  // Decodes received averages into `next`, the next version of the table's values. For parts whose
  // values arrived there instead, reads the state.
  Result<void> follow(ServerClient& client, std::uint32_t first, std::uint32_t count,
                      std::span<float> next, const server::PushOptions& push);
  // After follow(): applies the averages, as servers did. `next` becomes the version after
  // `present`. `finish` has one element for each part of a measured table; it is empty for others.
  void apply(std::uint32_t first, std::uint32_t count, std::span<const float> present,
             std::span<float> next, const server::PushOptions& push,
             std::span<const ServerClient::FinishOptions> finish);

  // powersgd. Writes the message of each part from the factors of the mean gradient.
  codec::PowerSgd& matrix() { return *matrix_; }
  void encode_factors(std::span<const float> left, std::span<const float> right,
                      Messages& messages) const;
  // Applies the mean gradient: `next` becomes the version after `present`. Overwrites the mean.
  void apply_mean(std::span<float> mean, std::span<const float> present, std::span<float> next,
                  const server::PushOptions& push,
                  std::span<const ServerClient::FinishOptions> finish);

  // Reads the servers' state, after values were pulled. adopt() then replaces the own state by it.
  Result<void> read_state(ServerClient& client) { return read_state(client, 0, parts()); }
  void adopt();
  void discard() { read_.clear(); }  // forgets what was read

  // The encoder state; the spans refer to memory of this object.
  std::vector<CodecState> states();

 private:
  // Optimizer state of servers.
  struct Read {
    ServerClient::PartRange range;
    std::vector<std::vector<float>> state;  // by array
  };

  // A part of an array with the table's elements.
  template <typename T>
  std::span<T> part_of(std::span<T> all, std::uint32_t part) const {
    return all.subspan(part * options_.part_elements, size_of_part(part));
  }
  std::size_t size_of_part(std::uint32_t part) const {
    return std::min(options_.part_elements, options_.count - part * options_.part_elements);
  }
  Result<void> read_state(ServerClient& client, std::uint32_t first, std::uint32_t count);
  codec::Draw draw_of(std::uint32_t part, const server::PushOptions& push,
                      std::uint64_t step) const;
  void apply_part(std::uint32_t part, std::span<float> average, std::span<const float> present,
                  std::span<float> next, const server::PushOptions& push,
                  const ServerClient::FinishOptions& finish);

  const Options options_;
  struct Ways {
    std::unique_ptr<codec::Codec> there;
    std::unique_ptr<codec::Codec> back;
  };
  std::vector<Ways> ways_;                 // by part, or one for all; empty for powersgd
  std::vector<std::vector<float>> state_;  // of the optimizer, by array; in_step()
  std::vector<Read> read_;
  std::vector<std::unique_ptr<codec::Encoder>> encoders_;  // by part; empty for powersgd
  std::unique_ptr<codec::PowerSgd> matrix_;                // for powersgd
  std::vector<ServerClient::Average> averages_;            // by part
  std::vector<std::byte> room_;
  std::vector<float> scratch_;
};

}  // namespace tally::exchange
