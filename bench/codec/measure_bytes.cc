#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/errors.h"
#include "bench/codec/harness.h"
#include "bench/codec/measure.h"
#include "codec/codec.h"
#include "codec/entropy/byte_coders.h"

namespace tally::bench::codecs {
namespace {

using Bytes = std::span<const std::byte>;

struct ByteCoder {
  const char* name = "";
  std::size_t (*encode)(Bytes in, std::span<std::byte> out) = nullptr;
  Result<void> (*decode)(Bytes in, std::span<std::byte> out) = nullptr;
};

ByteCoder coder_of(plan::EntropyStage stage) {
  if (stage == plan::EntropyStage::kRans) return {"rans", codec::rans_encode, codec::rans_decode};
  if (stage == plan::EntropyStage::kHuffman)
    return {"huffman", codec::huffman_encode, codec::huffman_decode};
  TALLY_CHECK(stage == plan::EntropyStage::kZstd);
  return {"zstd -1", codec::zstd_encode, codec::zstd_decode};
}

// A byte coder on pieces of an array, one after the other.
class BytesTrial final {
 public:
  BytesTrial(const ByteCoder& coder, std::vector<Bytes> pieces)
      : coder_(coder), pieces_(std::move(pieces)) {
    for (const Bytes piece : pieces_) {
      in_bytes_ += piece.size();
      room_.emplace_back(2 * piece.size() + 4096);
    }
    decoded_.resize(in_bytes_);
    used_.resize(pieces_.size());
  }

  // kCorrupt unless decoding restores the input.
  Result<void> check() {
    encode();
    if (std::find(used_.begin(), used_.end(), 0) != used_.end())
      return corrupt(fmt::format("{}: does not fit into twice the room", coder_.name));
    TALLY_TRY(decode());
    auto decoded = decoded_.begin();
    for (const Bytes piece : pieces_) {
      if (!std::equal(piece.begin(), piece.end(), decoded))
        return corrupt(fmt::format("{}: other bytes come back", coder_.name));
      decoded += static_cast<std::ptrdiff_t>(piece.size());
    }
    return {};
  }
  void encode() {
    for (std::size_t i = 0; i < pieces_.size(); ++i) used_[i] = coder_.encode(pieces_[i], room_[i]);
  }
  // Cannot fail after check().
  Result<void> decode() {
    std::size_t at = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto out = std::span(decoded_).subspan(at, pieces_[i].size());
      TALLY_TRY(coder_.decode(Bytes(room_[i]).first(used_[i]), out));
      at += pieces_[i].size();
    }
    return {};
  }
  std::size_t in_bytes() const { return in_bytes_; }
  double ratio() const {
    std::size_t out = 0;
    for (const std::size_t used : used_) out += used;
    return static_cast<double>(in_bytes_) / static_cast<double>(out);
  }

 private:
  const ByteCoder coder_;
  const std::vector<Bytes> pieces_;
  std::size_t in_bytes_ = 0;
  std::vector<std::vector<std::byte>> room_;
  std::vector<std::size_t> used_;
  std::vector<std::byte> decoded_;
};

}  // namespace

Result<Measurement> measure_zstd(const Input& input, int repeats) {
  std::vector<Bytes> pieces;
  for (const Run& run : runs_of(input))
    pieces.push_back(std::as_bytes(std::span(input.values).subspan(run.first, run.count)));
  BytesTrial trial(coder_of(plan::EntropyStage::kZstd), pieces);
  TALLY_TRY(trial.check());
  Measurement result{.codec = "zstd -1",
                     .input = input.name,
                     .elements = input.values.size(),
                     .bytes_per_value = sizeof(float) / trial.ratio()};
  std::vector<float> copied(input.values.size());
  time_all(input, copied, repeats,
           {{&Measurement::encode, [&] { trial.encode(); }},
            {&Measurement::decode, [&] { (void)trial.decode().has_value(); }}},
           result);
  return result;
}

Result<StageMeasurement> measure_stage(plan::EntropyStage stage, const plan::CodecSpec& spec,
                                       const Input& input, int repeats) {
  std::vector<std::vector<std::byte>> encoded;
  std::vector<Bytes> pieces;
  for (const Run& run : runs_of(input)) {
    const auto codec = codec::make_codec(spec, {.columns = run.columns});
    std::vector<std::byte>& bytes = encoded.emplace_back(codec->max_bytes(run.count));
    bytes.resize(codec->encode(std::span(input.values).subspan(run.first, run.count),
                               {.first = run.first}, bytes));
  }
  for (const auto& bytes : encoded) pieces.emplace_back(bytes);
  BytesTrial trial(coder_of(stage), pieces);
  TALLY_TRY(trial.check());
  StageMeasurement result{
      .stage = coder_of(stage).name, .of = plan::to_string(spec), .ratio = trial.ratio()};
  for (int i = 0; i < repeats; ++i) {
    result.encode_gb_per_s.push_back(gb_per_s(trial.in_bytes(), [&] { trial.encode(); }));
    result.decode_gb_per_s.push_back(
        gb_per_s(trial.in_bytes(), [&] { (void)trial.decode().has_value(); }));
  }
  return result;
}

}  // namespace tally::bench::codecs
