#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "tally/error.h"
#include "tally/server.h"

namespace tally::server {

// How the gradients of a table are encoded, and what goes back. The same for all its parts.
// Threads: safe.
class TableCodec final {
 public:
  // Null for a table without a codec. The spec has passed check(). kInvalid where its plan is not
  // one, or powersgd is to do without bsp or a matrix.
  static Result<std::shared_ptr<const TableCodec>> make(const TableSpec& spec);

  // Which of a table's values, and when.
  struct Place {
    std::uint64_t version = 0;  // of the push, or before the update
    std::uint64_t first = 0;    // element of the table
  };
  // values = what was pushed by a worker. kCorrupt, with `values` undefined, where it cannot be
  // that.
  Result<void> decode(std::span<const std::byte> bytes, const Place& place,
                      std::span<float> values) const;

  // Whether workers may follow: an update's number is its version, whatever came of those before.
  bool in_step() const { return in_step_; }
  // Whether updates are applied as what comes out of the way back.
  bool goes_back() const { return back_.codec != nullptr; }
  bool keeps_residual() const { return goes_back() && back_.feedback; }

  // The mean of what several have pushed, in their order; each has a weight above 0.
  void mean(std::span<const float* const> decoded, std::span<const double> weights,
            std::span<float> mean) const;
  // Turns the mean of an update into what all workers make of the bytes that go back to them, which
  // it returns. `residual` has as many values as `mean`, or none unless keeps_residual().
  std::vector<std::byte> send_back(const Place& place, std::span<float> mean,
                                   std::span<float> residual) const;

 private:
  TableCodec(const plan::CodecSpec& spec, const TableSpec& table, bool in_step);
  // Of one part, there and back, where it has another than the first; else null.
  std::unique_ptr<codec::Codec> own_codec(const Place& place) const;

  const plan::CodecSpec spec_;
  const bool in_step_;
  const std::size_t columns_;
  const std::uint64_t seed_;
  const std::uint64_t first_element_;
  std::unique_ptr<codec::Codec> codec_;
  codec::BroadcastCodec back_;
  std::unique_ptr<codec::Codec> densest_;  // dgc: any share
};

}  // namespace tally::server
