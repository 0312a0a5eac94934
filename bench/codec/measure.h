#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/codec/input.h"
#include "bench/common/report.h"
#include "plan/codec_spec.h"
#include "tally/error.h"

namespace tally::bench::codecs {

// One codec on one input. Speeds are GB of float32 values per second, one sample per repetition;
// shares are relative to a memory copy of the same values in the same repetition.
struct Measurement {
  std::string codec;
  std::string input;
  std::size_t elements = 0;
  struct Speed {
    std::vector<double> gb_per_s;
    std::vector<double> share;
  };
  Speed encode;
  Speed decode;
  Speed decode_add;
  Speed send;  // encode of a sender with error feedback; empty: the codec has none
  std::vector<double> copy_gb_per_s;
  double bytes_per_value = 0;
  double error = 0;  // ||x - decoded|| / ||x||
  // The same for the mean of 20 encodings of the same values by such a sender.
  std::optional<double> error_with_feedback;
};

// First checks the output: within the codec's bounds, deterministic, and the sum of two with
// decode-add. kCorrupt if a check fails. Runs on the calling thread, run by run over an array that
// should not fit the caches.
Result<Measurement> measure(const plan::CodecSpec& spec, const Input& input, int repeats);

// zstd at its fastest regular level on the raw bytes of the values.
Result<Measurement> measure_zstd(const Input& input, int repeats);

// An entropy stage alone on the bytes that `spec` makes of the input: GB of these bytes, which are
// its symbols, per second.
struct StageMeasurement {
  std::string stage;
  std::string of;
  std::vector<double> encode_gb_per_s;
  std::vector<double> decode_gb_per_s;
  double ratio = 0;  // bytes in over bytes out
};
Result<StageMeasurement> measure_stage(plan::EntropyStage stage, const plan::CodecSpec& spec,
                                       const Input& input, int repeats);

struct Results {
  std::vector<Measurement> codecs;
  std::vector<StageMeasurement> stages;
};

// Returns the targets of measured codecs, on the first input.
std::vector<Target> targets_of(const Results& results);

// There is a line for each codec and input, and for each stage.
Report report_on(const Results& results, int repeats);

}  // namespace tally::bench::codecs
