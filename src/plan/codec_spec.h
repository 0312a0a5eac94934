#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::plan {

// How gradients travel.
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

// What is done with the bytes that a codec makes.
enum class EntropyStage : std::uint8_t { kNone, kRans, kHuffman, kZstd };

enum class Fp8Format : std::uint8_t { kE4m3, kE5m2 };

// The codec of a plan with its settings, as a value; the text behind "codec=". Settings that a kind
// does not take have the values below.
//
//   none   fp16   bf16   natural
//   int8:B              blocks of B values with a scale each; B 16 to 65536, default 256
//   fp8:e4m3            or e5m2; ,block=B as above
//   qsgd:b              b = 2, 4 or 8 bits, default 4; ,block=B default 512 (128 with 2 bits)
//   ternary             ,clip=C standard deviations, 0: none, default 2.5
//   onebit:B            two means for each B values, default 128; onebit:column: for each output of
//   a weight matrix (for each 128 of
//                       what is no matrix)
//   sign:B              mean magnitude for each B values, default 128; ,vote: majority vote,
//   without feedback onebit-adam:W       plain Adam for W steps, default 100, then signs of
//   momentum; ,block=B as sign topk:d              share of values in (0, 1], default 0.01; ,exact:
//   by sorting; else by a sampled threshold randk:d             default 0.01 dgc:d default 0.001;
//   ,warmup=N steps in which the share falls to d, default 200; ,clip=C norm of each worker's
//                       gradient, of each run for itself, 0 (default): none; ,mask=off: momentum of
//                       sent values stays
//   threshold:t         magnitudes of at least t, default 0.001
//   powersgd:r          rank 1 to 64, default 2
//   auto                :from=A/B/...: what to choose from, at most 16, each with its settings and
//   stage; "none" always is. Not powersgd,
//                       dgc and onebit-adam, which are not run by run or change the optimizer
//
// Of int8, fp8, onebit, sign, topk, randk and threshold: ,momentum=early|late, whether sgd's
// momentum is the sender's, before encoding (default of onebit, sign, topk and randk), or the
// optimizer's. Of all but none and auto: ,min=N smallest tensor that is compressed (default 1024),
// ,all: vectors and small tensors too, and ,feedback=on|off. Then +rans, +huffman or +zstd, but not
// behind powersgd, whose factors are summed on their way.
//
// Feedback is on where a codec is biased: what it always leaves out would be lost for ever (int8,
// fp8, onebit, sign, topk, randk, threshold; and always with dgc, powersgd and onebit-adam, which
// are made of it). It is off for qsgd, ternary and natural: over many steps their errors cancel out
// by themselves, and those of ternary or of few bits may be larger than the gradient, so that a
// residual would grow from step to step. It is off for fp16 and bf16, whose rounding is far below
// the gradient's own noise. sign,vote cannot have it.
//
// What few bits say of a gradient is noise for the most part, which cancels out over some steps if
// there is feedback; a momentum behind it keeps each error for many steps, one before it does not.
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
  std::uint64_t warmup = 0;             // onebit-adam, dgc: steps
  bool masks = true;                    // dgc
  std::vector<std::string> candidates;  // auto: texts of codecs; empty: its own list
  bool feedback = false;  // what a sender left out is added to its next gradient; set by parsing
  bool early_momentum = false;  // sgd's momentum is the sender's; set by parsing
  std::size_t min_elements = 1024;
  bool all = false;
  EntropyStage stage = EntropyStage::kNone;

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// "topk"; "?" for what is no codec.
std::string_view word_of(Codec kind);

// "topk:0.01,exact+rans". The result passes check(). kInvalid for anything else, with the nearest
// word.
Result<CodecSpec> parse_codec(std::string_view text);
// parse_codec() reads it back; what has its default is left out.
std::string to_string(const CodecSpec& spec);
// kInvalid if a number is out of its range, or for a setting that this kind would not look at.
Result<void> check(const CodecSpec& spec);

}  // namespace tally::plan
