#include "exchange/lane/lane.h"

#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/errors.h"

namespace tally::exchange {

void Parcels::clear() {
  bytes.clear();
  sizes.clear();
}

std::span<const std::byte> Parcels::of(int member) const {
  const auto end = sizes.begin() + member;
  return std::span(bytes).subspan(std::accumulate(sizes.begin(), end, std::size_t{0}), *end);
}

Lane::Lane(Communicator* communicator, std::vector<Rank> ranks)
    : communicator_(communicator), ranks_(std::move(ranks)) {
  TALLY_CHECK(size() == (communicator_ == nullptr ? 1 : communicator_->size()));
}

// Allocates `in` for parcels of the sizes that their senders announced.
Result<void> Lane::learn_sizes(std::span<const std::int64_t> told, const ParcelSizes& sizes,
                               Parcels& in) const {
  in.clear();
  for (std::size_t m = 0; m < ranks_.size(); ++m) {
    if (told[m] < 0 || static_cast<std::uint64_t>(told[m]) > sizes.at_most[m])
      return make_error(ErrorCode::kCorrupt, ranks_[m], "gradients of {} bytes, limit {}", told[m],
                        sizes.at_most[m]);
    in.sizes.push_back(static_cast<std::size_t>(told[m]));
  }
  in.bytes.resize(std::accumulate(in.sizes.begin(), in.sizes.end(), std::size_t{0}));
  return {};
}

Result<void> Lane::exchange(const Parcels& out, const ParcelSizes& sizes, Parcels& in) {
  TALLY_CHECK(out.sizes.size() == ranks_.size() && sizes.at_most.size() == ranks_.size());
  std::vector<std::int64_t> told(sizes.at_most.begin(), sizes.at_most.end());
  if (communicator_ == nullptr) {
    in = out;
    return {};
  }
  if (!sizes.exactly) {
    const std::vector<std::int64_t> own(out.sizes.begin(), out.sizes.end());
    TALLY_TRY(communicator_->run({.operation = Operation::kAllToAll,
                                  .input = own.data(),
                                  .output = told.data(),
                                  .count = 1,
                                  .type = DataType::kInt64}));
  }
  TALLY_TRY(learn_sizes(told, sizes, in));
  return communicator_->run({.operation = Operation::kAllToAll,
                             .input = out.bytes.data(),
                             .output = in.bytes.data(),
                             .type = DataType::kUInt8,
                             .counts = out.sizes,
                             .receive_counts = in.sizes});
}

Result<void> Lane::gather(std::span<const std::byte> own, const ParcelSizes& sizes, Parcels& all) {
  TALLY_CHECK(sizes.at_most.size() == ranks_.size());
  std::vector<std::int64_t> told(sizes.at_most.begin(), sizes.at_most.end());
  if (communicator_ == nullptr) {
    all.bytes.assign(own.begin(), own.end());
    all.sizes.assign(1, own.size());
    return {};
  }
  if (!sizes.exactly) {
    const auto bytes = static_cast<std::int64_t>(own.size());
    TALLY_TRY(communicator_->allgather(std::span(&bytes, 1), std::span(told)));
  }
  TALLY_TRY(learn_sizes(told, sizes, all));
  return communicator_->run({.operation = Operation::kAllgather,
                             .input = own.data(),
                             .output = all.bytes.data(),
                             .count = own.size(),
                             .type = DataType::kUInt8,
                             .counts = all.sizes});
}

Result<void> Lane::sum(std::span<float> values) {
  return communicator_ == nullptr || values.empty() ? Result<void>{}
                                                    : communicator_->allreduce(values);
}

Result<void> Lane::sum(std::span<double> values) {
  return communicator_ == nullptr || values.empty() ? Result<void>{}
                                                    : communicator_->allreduce(values);
}

Result<void> Lane::sum_parts(std::span<const std::byte> all, const Parts& parts,
                             std::span<std::byte> own) {
  if (communicator_ == nullptr) return {};
  return communicator_->run({.operation = Operation::kReduceScatter,
                             .input = all.data(),
                             .output = own.data(),
                             .count = own.size() / size_of(parts.type),
                             .type = parts.type,
                             .counts = parts.counts});
}

Result<void> Lane::gather_parts(std::span<const std::byte> own, const Parts& parts,
                                std::span<std::byte> all) {
  if (communicator_ == nullptr) return {};
  return communicator_->run({.operation = Operation::kAllgather,
                             .input = own.data(),
                             .output = all.data(),
                             .count = own.size() / size_of(parts.type),
                             .type = parts.type,
                             .counts = parts.counts});
}

Result<void> Lane::tell(std::int64_t& number) {
  return communicator_ == nullptr ? Result<void>{}
                                  : communicator_->broadcast(std::span(&number, 1), 0);
}

void Lane::close() {
  if (communicator_ != nullptr) communicator_->close();
}

}  // namespace tally::exchange
