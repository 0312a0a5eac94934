#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::plan {

// The encoding of gradients.
enum class Codec : std::uint8_t {
  kNone,
  kFp16,
  kBf16,
  kInt8,
  kFp8,
  kQsgd,
  kTernary,
  kNatural,
  kOnebit,
  kSign,
  kOnebitAdam,
  kTopk,
  kRandk,
  kDgc,
  kThreshold,
  kPowersgd,
  kAuto,
};

// The entropy coder behind a codec.
enum class EntropyStage : std::uint8_t { kNone, kRans, kHuffman, kZstd };

enum class Fp8Format : std::uint8_t { kE4m3, kE5m2 };

// How the mean goes back to the senders.
enum class Back : std::uint8_t { kSame, kInt8, kBf16 };  // as a gradient, int8 or bf16

// The codec of a plan with its settings: the text behind "codec=" as a value. Settings that a kind
// does not take have the values below.
//
//   none   fp16   bf16   natural
//   int8:B              blocks of B values with a scale each; B is 16 to 65536, default 256
//   fp8:e4m3            or e5m2; ,block=B as above
//   qsgd:b              b = 2, 4 or 8 bits, default 4; ,block=B default 512 (128 with 2 bits)
//   ternary             ,clip=C standard deviations, 0: none, default 2.5
//   onebit:B            two means per B values, default 128; onebit:column: two means per row of a
//                       weight matrix (per 128 values of other tensors)
//   sign:B              mean magnitude per B values, default 128; ,vote: majority vote, without
//                       feedback
//   onebit-adam:W       plain Adam for W steps, default 100, then signs of the momentum; ,block=B
//                       as with sign
//   topk:d              share of values in (0, 1], default 0.01; ,exact: by sorting, else by a
//                       sampled threshold
//   randk:d             default 0.01; each value in turn, once in 1/d steps; ,mask=on: the momentum
//                       of a value advances only when it is sent (default, if the sender has
//                       momentum and feedback)
//   dgc:d               default 0.001; ,warmup=N steps in which the share falls to d, default 200;
//                       ,clip=C norm of each worker's gradient per run, 0 (default): none;
//                       ,mask=off: the momentum of sent values stays
//   threshold:t         magnitudes of at least t, default 0.001
//   powersgd:r          rank 1 to 64, default 2
//   auto                :from=A/B/...: the candidates, at most 16, each with settings and stage;
//                       "none" always is one. Not dgc and onebit-adam, which change the optimizer
//
// int8, fp8, onebit, sign, topk, randk and threshold take ,momentum=early|late: whether the sender
// applies sgd's momentum before encoding (default of onebit, sign, topk and randk), or the
// optimizer does. fp8, qsgd, ternary, natural, onebit, sign and onebit-adam take
// ,back=same|int8|bf16 for the mean (default of onebit and sign: int8). All but none, auto, dgc and
// onebit-adam take ,warmup=N for N steps of plain float32 (default 0). All but none and auto take
// ,min=N for the smallest compressed tensor (default 1024), ,all for vectors and small tensors too,
// and ,feedback=on|off. +rans, +huffman or +zstd may follow, but not behind powersgd, whose factors
// are summed by all-reduce.
//
// Error feedback is on by default for biased codecs, whose residual would otherwise be lost (int8,
// fp8, onebit, sign, topk, randk, threshold), and always on for dgc, powersgd and onebit-adam. It
// is off for qsgd and natural, whose errors cancel out over many steps, and for fp16 and bf16,
// whose rounding is far below the noise of the gradient. ternary and qsgd:2 cannot have it: their
// errors may be larger than the gradient, so that a residual would grow from step to step. Neither
// can sign,vote. randk without feedback is scaled by 1/d, which makes it unbiased.
//
// A gradient of few bits is mostly noise, which feedback cancels out over some steps. Momentum
// after the decoding keeps each error for many steps; momentum before the encoding does not.
struct CodecSpec {
  Codec kind = Codec::kNone;
  std::size_t block = 0;   // int8, fp8, qsgd, onebit, sign, onebit-adam; set by parsing
  bool by_column = false;  // onebit
  bool vote = false;       // sign
  int bits = 0;            // qsgd
  Fp8Format fp8 = Fp8Format::kE4m3;
  double clip = 0;                      // ternary, dgc
  double density = 0;                   // topk, randk, dgc
  bool exact = false;                   // topk
  double threshold = 0;                 // threshold
  int rank = 0;                         // powersgd
  std::uint64_t warmup = 0;             // steps
  bool masks = false;                   // dgc, randk; set by parsing
  Back back = Back::kSame;              // set by parsing
  std::vector<std::string> candidates;  // auto: texts of codecs; empty: the default list
  bool feedback = false;        // the residual is added to the next gradient; set by parsing
  bool early_momentum = false;  // the sender applies sgd's momentum; set by parsing
  std::size_t min_elements = 1024;
  bool all = false;
  EntropyStage stage = EntropyStage::kNone;

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// "topk"; "?" for an unknown kind.
std::string_view word_of(Codec kind);

// Parses "topk:0.01,exact+rans". The result passes check(). kInvalid for any other text, with the
// nearest word.
Result<CodecSpec> parse_codec(std::string_view text);
// The text for parse_codec(), without settings that have their defaults.
std::string to_string(const CodecSpec& spec);
// kInvalid if a number is out of range, or if a setting is set that the kind does not take.
Result<void> check(const CodecSpec& spec);

}  // namespace tally::plan
