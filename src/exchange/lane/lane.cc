#include "exchange/lane/lane.h"

#include <algorithm>
#include <memory>
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

Result<bool> Delivery::advance() {
  while (operation && operation->poll()) {
    const auto outcome = operation->wait();
    if (!outcome) return lane == nullptr ? outcome.error() : lane->named(outcome.error());
    operation.reset();
    if (!then) break;
    const auto start = std::exchange(then, {});
    TALLY_TRY(*this, start());
  }
  return !operation;
}

Result<void> Delivery::finish() {
  while (operation) {
    (void)operation->wait();  // advance() takes the outcome
    TALLY_TRY(const bool arrived, advance());
    if (arrived) break;
  }
  return {};
}

Lane::Lane(Communicator* communicator, std::vector<Rank> ranks)
    : communicator_(communicator), ranks_(std::move(ranks)) {
  TALLY_CHECK(size() == (communicator_ == nullptr ? 1 : communicator_->size()));
}

Delivery Lane::start(const Request& request, std::function<Result<Delivery>()> then) const {
  return {.operation = communicator_->start(request), .then = std::move(then), .lane = this};
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

// Exact sizes are known to all members; otherwise they are exchanged first.
Delivery Lane::exchange(const Parcels& out, const ParcelSizes& sizes, Parcels& in) {
  TALLY_CHECK(out.sizes.size() == ranks_.size() && sizes.at_most.size() == ranks_.size());
  if (communicator_ == nullptr) {
    in = out;
    return {};
  }
  const auto send = [this, &out, &in]() -> Delivery {
    return start({.operation = Operation::kAllToAll,
                  .input = out.bytes.data(),
                  .output = in.bytes.data(),
                  .type = DataType::kUInt8,
                  .counts = out.sizes,
                  .receive_counts = in.sizes});
  };
  if (sizes.exactly) {
    in.sizes = sizes.at_most;
    in.bytes.resize(std::accumulate(in.sizes.begin(), in.sizes.end(), std::size_t{0}));
    return send();
  }
  struct Told {
    std::vector<std::int64_t> own, all;
  };
  const auto told = std::make_shared<Told>(Told{.own = {out.sizes.begin(), out.sizes.end()},
                                                .all = std::vector<std::int64_t>(ranks_.size())});
  return start({.operation = Operation::kAllToAll,
                .input = told->own.data(),
                .output = told->all.data(),
                .count = 1,
                .type = DataType::kInt64},
               [this, send, told, sizes, &in]() -> Result<Delivery> {
                 TALLY_TRY(learn_sizes(told->all, sizes, in));
                 return send();
               });
}

Delivery Lane::gather(std::span<const std::byte> own, const ParcelSizes& sizes, Parcels& all) {
  TALLY_CHECK(sizes.at_most.size() == ranks_.size());
  if (communicator_ == nullptr) {
    all.bytes.assign(own.begin(), own.end());
    all.sizes.assign(1, own.size());
    return {};
  }
  const auto send = [this, own, &all]() -> Delivery {
    return start({.operation = Operation::kAllgather,
                  .input = own.data(),
                  .output = all.bytes.data(),
                  .count = own.size(),
                  .type = DataType::kUInt8,
                  .counts = all.sizes});
  };
  if (sizes.exactly) {
    all.sizes = sizes.at_most;
    all.bytes.resize(std::accumulate(all.sizes.begin(), all.sizes.end(), std::size_t{0}));
    return send();
  }
  struct Told {
    std::int64_t own = 0;
    std::vector<std::int64_t> all;
  };
  const auto told = std::make_shared<Told>(Told{.own = static_cast<std::int64_t>(own.size()),
                                                .all = std::vector<std::int64_t>(ranks_.size())});
  return start({.operation = Operation::kAllgather,
                .input = &told->own,
                .output = told->all.data(),
                .count = 1,
                .type = DataType::kInt64},
               [this, send, told, sizes, &all]() -> Result<Delivery> {
                 TALLY_TRY(learn_sizes(told->all, sizes, all));
                 return send();
               });
}

Delivery Lane::sum(std::span<float> values) {
  if (communicator_ == nullptr || values.empty()) return {};
  return start({.operation = Operation::kAllreduce,
                .input = values.data(),
                .output = values.data(),
                .count = values.size(),
                .type = DataType::kFloat32});
}

Delivery Lane::sum_parts(std::span<const std::byte> all, const Parts& parts,
                         std::span<std::byte> own) {
  if (communicator_ == nullptr) return {};
  return start({.operation = Operation::kReduceScatter,
                .input = all.data(),
                .output = own.data(),
                .count = own.size() / size_of(parts.type),
                .type = parts.type,
                .counts = parts.counts});
}

Delivery Lane::gather_parts(std::span<const std::byte> own, const Parts& parts,
                            std::span<std::byte> all) {
  if (communicator_ == nullptr) return {};
  return start({.operation = Operation::kAllgather,
                .input = own.data(),
                .output = all.data(),
                .count = own.size() / size_of(parts.type),
                .type = parts.type,
                .counts = parts.counts});
}

void Lane::close() {
  if (communicator_ != nullptr) communicator_->close();
}

// Between members, a rank outside the lane has the number size() + its rank in the job.
void Lane::abort(const Error& why) {
  if (communicator_ == nullptr) return;
  Error told = why;
  if (why.peer != kNoRank) {
    const auto member = std::find(ranks_.begin(), ranks_.end(), why.peer);
    told.peer =
        member == ranks_.end() ? size() + why.peer : static_cast<Rank>(member - ranks_.begin());
  }
  communicator_->abort(told);
}

Error Lane::named(Error error) const {
  if (error.peer >= size())
    error.peer -= size();
  else if (error.peer != kNoRank)
    error.peer = rank_of(error.peer);
  return error;
}

std::span<std::byte> Lane::room(std::size_t bytes) {
  if (room_.size() < bytes) room_.resize(bytes);
  return std::span(room_).first(bytes);
}

}  // namespace tally::exchange
