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

// The codec of a table: decodes pushed gradients, and encodes averages for the workers. Shared by
// all parts. Threads: safe.
class TableCodec final {
 public:
  // Null for a table without a codec. The spec has passed check(). kInvalid for a wrong plan, and
  // for powersgd without bsp or without a matrix.
  static Result<std::shared_ptr<const TableCodec>> make(const TableSpec& spec);

  // Decodes a push of the run that begins at the element `first`. kCorrupt, with `values`
  // undefined, for bytes that are no encoding of the run.
  Result<void> decode(std::span<const std::byte> bytes, std::uint64_t first,
                      std::span<float> values) const;

  // update=bsp: workers may apply averages themselves, since the version numbers the updates.
  bool in_step() const { return in_step_; }
  // Whether the mean of gradients is the majority of their signs.
  bool votes() const { return spec_.vote; }
  // Whether the server applies the decoded encoding of the average, as the workers do.
  bool goes_back() const { return back_.codec != nullptr; }
  bool keeps_residual() const { return goes_back() && back_.feedback; }

  // The weighted mean of decoded gradients, in their order; all weights are above 0. `plain`: they
  // were not encoded.
  void mean(std::span<const float* const> decoded, std::span<const double> weights, bool plain,
            std::span<float> mean) const;
  // A run of the table's values before an update.
  struct Place {
    std::uint64_t version = 0;
    std::uint64_t first = 0;  // element of the table
  };
  // Encodes the mean for the workers, returns the bytes, and replaces `mean` by their decoding.
  // `residual` has the size of `mean` if keeps_residual(), else 0.
  std::vector<std::byte> send_back(const Place& place, std::span<float> mean,
                                   std::span<float> residual) const;

 private:
  TableCodec(const plan::CodecSpec& spec, const TableSpec& table, bool in_step);
  // The codec of a run that differs from the first run's; else null.
  std::unique_ptr<codec::Codec> own_codec(std::uint64_t first) const;

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
