#include "collective/request.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "base/errors.h"
#include "base/part_counts.h"

namespace tally::collective {
namespace {

Error invalid_request(const Request& request, std::string_view what) {
  return invalid("{}: {}", to_string(request.operation), what);
}

std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

struct Sizes {
  std::size_t input = 0;
  std::size_t output = 0;
};

// The number of elements of this rank's input and output.
Sizes sizes_of(const Request& request, Rank rank, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t all = request.counts.empty() ? request.count * n : sum(request.counts);
  const std::size_t own =
      request.counts.empty() ? request.count : request.counts[static_cast<std::size_t>(rank)];
  const bool at_root = rank == request.root;
  switch (request.operation) {
    case Operation::kBarrier:
      return {};
    case Operation::kAllreduce:
      return {request.count, request.count};
    case Operation::kReduceScatter:
      return {all, own};
    case Operation::kAllgather:
      return {own, all};
    case Operation::kBroadcast:
      return {at_root ? request.count : 0, request.count};
    case Operation::kReduce:
      return {request.count, at_root ? request.count : 0};
    case Operation::kGather:
      return {own, at_root ? all : 0};
    case Operation::kScatter:
      return {at_root ? all : 0, own};
    case Operation::kAllToAll:
      return {all,
              request.receive_counts.empty() ? request.count * n : sum(request.receive_counts)};
    case Operation::kSend:
      return {request.count, 0};
    case Operation::kReceive:
      return {0, request.count};
  }
  return {};
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto* first = static_cast<const std::byte*>(a);
  const auto* second = static_cast<const std::byte*>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

Result<void> check_memory(const Request& request, Rank rank, int ranks) {
  const Sizes sizes = sizes_of(request, rank, ranks);
  const std::size_t element = size_of(request.type);
  if (sizes.input > 0 && request.input == nullptr) return invalid_request(request, "input is null");
  if (sizes.output > 0 && request.output == nullptr)
    return invalid_request(request, "output is null");
  if (sizes.input == 0 || sizes.output == 0) return {};
  const bool may_be_same = request.operation == Operation::kAllreduce ||
                           request.operation == Operation::kReduce ||
                           request.operation == Operation::kBroadcast;
  if (may_be_same && request.input == request.output) return {};
  if (overlap(request.input, sizes.input * element, request.output, sizes.output * element))
    return invalid_request(request, "input and output overlap");
  return {};
}

}  // namespace

Result<void> check(const Request& request, Rank rank, int ranks) {
  if (static_cast<int>(request.type) >= kDataTypeCount)
    return invalid_request(request, "unknown data type");
  if (static_cast<int>(request.reduce_op) >= kReduceOpCount)
    return invalid_request(request, "unknown reduce operation");
  const auto n = static_cast<std::size_t>(ranks);
  if (request.count > std::numeric_limits<std::size_t>::max() / 16 / n)
    return invalid_request(request, "count is too large");
  if (has_root(request.operation) && (request.root < 0 || request.root >= ranks))
    return invalid_request(request,
                           fmt::format("rank {} of {} does not exist", request.root, ranks));
  if (is_point(request) && request.root == rank)
    return invalid_request(request, "a rank cannot send to itself");
  if (!request.counts.empty()) {
    if (!has_parts(request.operation)) return invalid_request(request, "takes no counts");
    if (request.counts.size() != n)
      return invalid_request(request,
                             fmt::format("{} counts for {} ranks", request.counts.size(), ranks));
  }
  const bool all_to_all = request.operation == Operation::kAllToAll;
  if (all_to_all && request.counts.size() != request.receive_counts.size())
    return invalid_request(request, "needs both counts and receive_counts, or neither");
  return check_memory(request, rank, ranks);
}

wire::Signature signature_of(const Request& request, Algorithm algorithm) {
  // The counts of each pair of kAllToAll are checked by the size of its message.
  wire::Signature signature{.count = count_of(request),
                            .operation = static_cast<std::uint8_t>(request.operation),
                            .type = static_cast<std::uint8_t>(request.type),
                            .algorithm = static_cast<std::uint8_t>(algorithm)};
  if (reduces(request.operation))
    signature.reduce_op = static_cast<std::uint8_t>(request.reduce_op);
  if (has_root(request.operation)) signature.root = request.root;
  if (is_point(request)) {
    signature.operation = static_cast<std::uint8_t>(Operation::kSend);
    signature.root = 0;
  }
  return signature;
}

Parts parts_of(const Request& request, int ranks) {
  const std::size_t element = size_of(request.type);
  if (!request.counts.empty()) return Parts::of(request.counts, element);
  return Parts::equal({.count = request.count, .element_bytes = element}, ranks);
}

}  // namespace tally::collective
