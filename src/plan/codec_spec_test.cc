#include "plan/codec_spec.h"

#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tally::plan {
namespace {

struct Case {
  std::string_view text;  // as to_string() prints it
  CodecSpec spec;
};

const Case kCases[] = {
    {"none", {}},
    {"fp16", {.kind = Codec::kFp16}},
    {"bf16+zstd", {.kind = Codec::kBf16, .stage = EntropyStage::kZstd}},
    {"natural:feedback=on", {.kind = Codec::kNatural, .feedback = true}},
    {"int8", {.kind = Codec::kInt8, .block = 256, .feedback = true}},
    {"int8:16,min=0,feedback=off,all",
     {.kind = Codec::kInt8, .block = 16, .min_elements = 0, .all = true}},
    {"int8:65536+huffman",
     {.kind = Codec::kInt8, .block = 65536, .feedback = true, .stage = EntropyStage::kHuffman}},
    {"fp8", {.kind = Codec::kFp8, .block = 256, .feedback = true}},
    {"fp8:e5m2,block=128",
     {.kind = Codec::kFp8, .block = 128, .fp8 = Fp8Format::kE5m2, .feedback = true}},
    {"qsgd", {.kind = Codec::kQsgd, .block = 512, .bits = 4}},
    {"qsgd:2", {.kind = Codec::kQsgd, .block = 128, .bits = 2}},
    {"qsgd:2,block=512", {.kind = Codec::kQsgd, .block = 512, .bits = 2}},
    {"qsgd:8,block=128+rans",
     {.kind = Codec::kQsgd, .block = 128, .bits = 8, .stage = EntropyStage::kRans}},
    {"ternary", {.kind = Codec::kTernary, .clip = 2.5}},
    {"ternary:clip=0", {.kind = Codec::kTernary}},
    {"onebit",
     {.kind = Codec::kOnebit,
      .block = 128,
      .back = Back::kInt8,
      .feedback = true,
      .early_momentum = true}},
    {"onebit:64",
     {.kind = Codec::kOnebit,
      .block = 64,
      .back = Back::kInt8,
      .feedback = true,
      .early_momentum = true}},
    {"onebit:column",
     {.kind = Codec::kOnebit,
      .block = 128,
      .by_column = true,
      .back = Back::kInt8,
      .feedback = true,
      .early_momentum = true}},
    {"sign",
     {.kind = Codec::kSign,
      .block = 128,
      .back = Back::kInt8,
      .feedback = true,
      .early_momentum = true}},
    {"sign:vote", {.kind = Codec::kSign, .block = 128, .vote = true, .early_momentum = true}},
    {"sign:1024,vote+rans",
     {.kind = Codec::kSign,
      .block = 1024,
      .vote = true,
      .early_momentum = true,
      .stage = EntropyStage::kRans}},
    {"onebit-adam", {.kind = Codec::kOnebitAdam, .block = 128, .warmup = 100, .feedback = true}},
    {"onebit-adam:23000,block=4096",
     {.kind = Codec::kOnebitAdam, .block = 4096, .warmup = 23000, .feedback = true}},
    {"topk", {.kind = Codec::kTopk, .density = 0.01, .feedback = true, .early_momentum = true}},
    {"topk:0.05,exact+rans",
     {.kind = Codec::kTopk,
      .density = 0.05,
      .exact = true,
      .feedback = true,
      .early_momentum = true,
      .stage = EntropyStage::kRans}},
    {"topk:1,momentum=late", {.kind = Codec::kTopk, .density = 1, .feedback = true}},
    {"randk:0.1,min=4096",
     {.kind = Codec::kRandk,
      .density = 0.1,
      .masks = true,
      .feedback = true,
      .early_momentum = true,
      .min_elements = 4096}},
    {"dgc",
     {.kind = Codec::kDgc, .density = 0.001, .warmup = 200, .masks = true, .feedback = true}},
    {"sign:back=same",
     {.kind = Codec::kSign, .block = 128, .feedback = true, .early_momentum = true}},
    {"qsgd:warmup=100,back=bf16",
     {.kind = Codec::kQsgd, .block = 512, .bits = 4, .warmup = 100, .back = Back::kBf16}},
    {"randk:0.1,mask=off",
     {.kind = Codec::kRandk, .density = 0.1, .feedback = true, .early_momentum = true}},
    {"randk:0.1,momentum=late", {.kind = Codec::kRandk, .density = 0.1, .feedback = true}},
    {"randk:0.1,feedback=off", {.kind = Codec::kRandk, .density = 0.1, .early_momentum = true}},
    {"dgc:0.01,warmup=0,clip=6,mask=off",
     {.kind = Codec::kDgc, .clip = 6, .density = 0.01, .masks = false, .feedback = true}},
    {"threshold:1e-05", {.kind = Codec::kThreshold, .threshold = 1e-5, .feedback = true}},
    {"threshold:1e20+zstd",
     {.kind = Codec::kThreshold,
      .threshold = 1e20,
      .feedback = true,
      .stage = EntropyStage::kZstd}},
    {"powersgd", {.kind = Codec::kPowersgd, .rank = 2, .feedback = true}},
    {"powersgd:64,all", {.kind = Codec::kPowersgd, .rank = 64, .feedback = true, .all = true}},
    {"auto", {.kind = Codec::kAuto}},
    {"auto:from=powersgd/powersgd:4",
     {.kind = Codec::kAuto, .candidates = {"powersgd", "powersgd:4"}}},
    {"auto:from=int8+zstd/topk:0.05,exact/none",
     {.kind = Codec::kAuto, .candidates = {"int8+zstd", "topk:0.05,exact", "none"}}},
};

TEST(CodecSpec, TextBecomesTheValueItSaysAndIsPrintedAgain) {
  for (const Case& c : kCases) {
    const auto spec = parse_codec(c.text);
    ASSERT_TRUE(spec) << c.text << ": " << spec.error().message;
    EXPECT_EQ(*spec, c.spec) << c.text;
    EXPECT_EQ(to_string(*spec), c.text);
    EXPECT_TRUE(check(c.spec)) << c.text;
  }
}

TEST(CodecSpec, WhatIsItsDefaultMayBeSaid) {
  struct Same {
    std::string_view text, printed;
  };
  constexpr Same kSame[] = {
      {"int8:256", "int8"},
      {"fp8:e4m3,block=256", "fp8"},
      {"qsgd:4,block=512,feedback=off", "qsgd"},
      {"qsgd:block=128,feedback=on", "qsgd:block=128,feedback=on"},
      {"topk:exact,min=1024,feedback=on", "topk:exact"},
      {"sign:128,vote,feedback=off", "sign:vote"},
      {"onebit-adam:100,feedback=on,block=128", "onebit-adam"},
      {"dgc:0.001,mask=on,clip=0", "dgc"},
      {"powersgd:2,feedback=on", "powersgd"},
      {"auto:from=int8:256/topk:0.01", "auto:from=int8/topk"},
  };
  for (const Same& c : kSame) {
    const auto spec = parse_codec(c.text);
    EXPECT_EQ(spec ? to_string(*spec) : "", c.printed) << c.text;
  }
}

TEST(CodecSpec, WhatAWordDoesNotTakeIsRefusedWithWhatItDoes) {
  struct Refusal {
    std::string_view text, message;
  };
  constexpr Refusal kRefusals[] = {
      {"topl",
       "'topl' is no codec; nearest: topk (known: none, fp16, bf16, int8, fp8, qsgd, ternary, "
       "natural, onebit, sign, onebit-adam, topk, randk, dgc, threshold, powersgd, auto)"},
      {"none:2", "codec=none:2: none takes no settings"},
      {"none+rans", "codec=none+rans: no entropy stage can follow none"},
      {"topk+rams",
       "codec=topk+rams: 'rams' is no entropy stage; nearest: rans (known: rans, huffman, zstd)"},
      {"topk+rans+zstd",
       "codec=topk+rans+zstd: 'rans+zstd' is no entropy stage; nearest: rans (known: rans, "
       "huffman, zstd)"},
      {"topk:0", "codec=topk:0: 0 is not above 0 and at most 1"},
      {"topk:1.5", "codec=topk:1.5: 1.5 is not above 0 and at most 1"},
      {"topk:-0.1", "codec=topk:-0.1: -0.1 is not above 0 and at most 1"},
      {"topk:0.1x", "codec=topk:0.1x: '0.1x' is not a number"},
      {"topk:exakt",
       "codec=topk:exakt: 'exakt' is no setting of topk; nearest: exact (known: exact, "
       "feedback=on, feedback=off, momentum=early, momentum=late, all, warmup, min); a number "
       "stands first, as in topk:0.01"},
      {"topk:",
       "codec=topk:: '' is no setting of topk; nearest: all (known: exact, feedback=on, "
       "feedback=off, momentum=early, momentum=late, all, warmup, min); a number stands first, "
       "as in topk:0.01"},
      {"topk:exact,0.1",
       "codec=topk:exact,0.1: '0.1' is no setting of topk; nearest: all (known: exact, "
       "feedback=on, feedback=off, momentum=early, momentum=late, all, warmup, min); a number "
       "stands first, as in topk:0.01"},
      {"topk:exact,exact", "codec=topk:exact,exact: exact is given twice"},
      {"topk:feedback=on,feedback=off",
       "codec=topk:feedback=on,feedback=off: feedback is given twice"},
      {"int8:15", "codec=int8:15: 15 is not from 16 to 65536"},
      {"int8:65537", "codec=int8:65537: 65537 is not from 16 to 65536"},
      {"int8:16.5", "codec=int8:16.5: '16.5' is not a whole number from 0"},
      {"int8:min", "codec=int8:min: '' is not a number"},
      {"ternary:feedback=on",
       "codec=ternary:feedback=on: ternary takes no feedback: one encoding may err by more than "
       "the "
       "gradient, so a residual would grow from step to step; nearest: ternary"},
      {"qsgd:2,feedback=on",
       "codec=qsgd:2,feedback=on: qsgd takes no feedback: one encoding may err by more than the "
       "gradient, so a residual would grow from step to step; nearest: qsgd:4,feedback=on"},
      {"qsgd:3",
       "codec=qsgd:3: '3' is no setting of qsgd; nearest: 2 (known: 2, 4, 8, back=same, back=int8, "
       "back=bf16, feedback=on, "
       "feedback=off, all, block, warmup, min)"},
      {"fp8:e4m4",
       "codec=fp8:e4m4: 'e4m4' is no setting of fp8; nearest: e4m3 (known: e4m3, e5m2, "
       "back=same, back=int8, back=bf16, feedback=on, feedback=off, momentum=early, momentum=late, "
       "all, block, warmup, min)"},
      {"powersgd:65", "codec=powersgd:65: 65 is not from 1 to 64"},
      {"powersgd+rans",
       "codec=powersgd+rans: no entropy stage can follow powersgd: its factors are summed by "
       "all-reduce"},
      {"powersgd:feedback=off", "codec=powersgd:feedback=off: powersgd needs feedback"},
      {"dgc:feedback=off", "codec=dgc:feedback=off: dgc needs feedback"},
      {"onebit-adam:feedback=off", "codec=onebit-adam:feedback=off: onebit-adam needs feedback"},
      {"onebit-adam:0", "codec=onebit-adam:0: 0 is not from 1 to 1000000000"},
      {"sign:vote,feedback=on",
       "codec=sign:vote,feedback=on: vote takes no feedback: the residual of a vote is not "
       "defined"},
      {"auto:int8",
       "codec=auto:int8: auto takes only candidates, as in "
       "auto:from=int8/topk:0.01"},
      {"auto:from=int9",
       "codec=auto:from=int9: 'int9' is no codec; nearest: int8 (known: none, fp16, bf16, int8, "
       "fp8, qsgd, ternary, natural, onebit, sign, onebit-adam, topk, randk, dgc, threshold, "
       "powersgd, auto)"},
      {"auto:from=int8:3", "codec=auto:from=int8:3: codec=int8:3: 3 is not from 16 to 65536"},
      {"auto:from=dgc",
       "codec=auto:from=dgc: auto cannot choose dgc: its choice may change from bucket to bucket, "
       "so it must not change the optimizer"},
      {"auto:from=auto:from=auto",
       "codec=auto:from=auto:from=auto: auto cannot choose auto: its choice may change from bucket "
       "to bucket, so it must not change the optimizer"},
      {"auto:from=int8/int8:256", "codec=auto:from=int8/int8:256: int8 is given twice"},
      {"auto:from=int8:all",
       "codec=auto:from=int8:all: candidates of auto take no min, no all and no warmup"},
      {"auto:from=int8:warmup=5",
       "codec=auto:from=int8:warmup=5: candidates of auto take no min, no all and no warmup"},
      {"sign:vote,back=int8",
       "codec=sign:vote,back=int8: vote takes no back: the majority goes back exactly"},
      {"randk:mask=on,feedback=off",
       "codec=randk:mask=on,feedback=off: mask=on needs feedback=on: the masked momentum is one of "
       "sums"},
      {"randk:mask=on,momentum=late",
       "codec=randk:mask=on,momentum=late: mask=on needs momentum=early: the momentum of the "
       "optimizer is not masked"},
  };
  for (const Refusal& c : kRefusals) {
    const auto spec = parse_codec(c.text);
    ASSERT_FALSE(spec) << c.text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(spec.error().message, c.message);
  }
}

// check() applies to a spec that code fills in just as to a parsed one.
TEST(CodecSpec, CheckRefusesNumbersOutOfRangeOrOfOtherKinds) {
  const CodecSpec specs[] = {
      {.kind = static_cast<Codec>(17)},
      {.kind = static_cast<Codec>(200)},
      {.kind = Codec::kInt8, .feedback = true},  // no block
      {.kind = Codec::kInt8, .block = 256, .bits = 4, .feedback = true},
      {.kind = Codec::kQsgd, .block = 512, .bits = 3},
      {.kind = Codec::kFp8, .block = 256, .fp8 = static_cast<Fp8Format>(2), .feedback = true},
      {.kind = Codec::kTopk, .density = std::numeric_limits<double>::quiet_NaN()},
      {.kind = Codec::kTopk, .density = 0.1, .candidates = {"int8"}},
      {.kind = Codec::kOnebit,
       .block = 64,
       .by_column = true,
       .back = Back::kInt8,
       .feedback = true},
      {.kind = Codec::kFp16, .stage = static_cast<EntropyStage>(4)},
      {.density = 0.1},
      {.feedback = true},
      {.kind = Codec::kPowersgd, .rank = 2},
      {.kind = Codec::kAuto, .candidates = {"int8:256"}},
      {.kind = Codec::kAuto, .candidates = std::vector<std::string>(17, "int8")},
  };
  for (const CodecSpec& spec : specs) EXPECT_FALSE(check(spec)) << to_string(spec);
  EXPECT_EQ(check(CodecSpec{.density = 0.1}).error().message,
            "codec=none: a setting is set that none does not take");
  EXPECT_EQ(check(CodecSpec{.kind = static_cast<Codec>(17)}).error().message,
            "no codec has the number 17");
}

TEST(CodecSpec, EachKindHasItsWord) {
  EXPECT_EQ(word_of(Codec::kNone), "none");
  EXPECT_EQ(word_of(Codec::kOnebitAdam), "onebit-adam");
  EXPECT_EQ(word_of(Codec::kAuto), "auto");
  EXPECT_EQ(word_of(static_cast<Codec>(17)), "?");
}

}  // namespace
}  // namespace tally::plan
