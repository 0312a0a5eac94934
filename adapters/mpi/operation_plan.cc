#include "adapters/mpi/operation_plan.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "collective/choose.h"
#include "collective/operations.h"
#include "collective/request.h"

namespace tally::mpi {
namespace {

// All-reduces from this size on are schedules. MPI_Iallreduce of Open MPI takes twice the time of
// MPI_Allreduce and more; bench/allreduce/README.md has the measurement. Below, the library needs
// fewer steps than our schedules if there are more than two ranks.
constexpr std::size_t kScheduleBytes = std::size_t{4} << 10;

// The messages of a collective are short enough for the second-level cache, so that a sum finds the
// bytes there that MPI has just copied.
constexpr std::size_t kMessageBytes = std::size_t{512} << 10;

// Elements of the request's large buffer.
std::size_t total_elements(const Request& request, const Site& site) {
  if (!has_parts(request.operation)) return request.count;
  if (request.counts.empty()) return request.count * static_cast<std::size_t>(site.ranks);
  return std::accumulate(request.counts.begin(), request.counts.end(), std::size_t{0});
}

}  // namespace

bool is_library_call(const Request& request, const Site& site) {
  if (collective::is_point(request)) return false;
  if (total_elements(request, site) > site.most) return false;
  // Each pair of ranks has its own count, so that ranks could decide differently by size, and
  // MPI_Ialltoallv does not match messages.
  if (request.operation == Operation::kAllToAll) return request.counts.empty();
  if (request.operation != Operation::kAllreduce) return true;
  return site.ranks > 2 && request.count * size_of(request.type) < kScheduleBytes;
}

collective::Schedule schedule_of(const Request& request, const Site& site) {
  if (!collective::is_point(request)) {
    // Messages are all that MPI has: to the choice, each rank is a host of its own.
    const auto algorithm =
        collective::choose(request, {.ranks = site.ranks, .hosts = std::max(site.ranks, 2)});
    TALLY_CHECK(algorithm.has_value());
    return collective::schedule_for(request, site.rank, site.ranks, *algorithm);
  }
  const std::size_t bytes = request.count * size_of(request.type);
  collective::Schedule schedule;
  schedule.begin_step();
  if (request.operation == Operation::kSend) {
    schedule.send(request.root, request.tag, {collective::Buffer::kInput, 0, bytes});
  } else {
    schedule.receive(request.root, request.tag, {collective::Buffer::kOutput, 0, bytes});
  }
  return schedule;
}

// Sends and receives are not cut, so that MPI itself compares the lengths of both sides.
std::size_t message_elements(const Request& request, const Site& site) {
  if (collective::is_point(request)) return site.most;
  return std::min(site.most, kMessageBytes / size_of(request.type));
}

}  // namespace tally::mpi
