#include "adapters/mpi/operation_plan.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace tally::mpi {
namespace {

// Elements of each rank's part, one after the other in a buffer.
class Spread {
 public:
  Spread(std::span<const std::size_t> counts, std::size_t each, int ranks)
      : starts_(static_cast<std::size_t>(ranks) + 1) {
    for (std::size_t r = 0; r + 1 < starts_.size(); ++r)
      starts_[r + 1] = starts_[r] + (counts.empty() ? each : counts[r]);
  }
  std::size_t start(Rank rank) const { return starts_[static_cast<std::size_t>(rank)]; }
  std::size_t count(Rank rank) const { return start(rank + 1) - start(rank); }

 private:
  std::vector<std::size_t> starts_;
};

std::size_t total(std::span<const std::size_t> counts, std::size_t each, int ranks) {
  if (counts.empty()) return each * static_cast<std::size_t>(ranks);
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

class Planner {
 public:
  explicit Planner(const Site& site) : site_(site) {}

  // `piece` cut where it is too long. In rounds of its own, or all in the present one.
  void cut(const Piece& piece, bool together = false) {
    for (std::size_t done = 0; done < piece.count;) {
      Piece next = piece;
      next.input_at += done;
      next.output_at += done;
      next.count = std::min(site_.most, piece.count - done);
      done += next.count;
      add(next);
      if (!together) ++round_;
    }
  }
  void add(Piece piece) {
    piece.round = round_;
    pieces_.push_back(piece);
  }
  void copy(std::size_t input_at, std::size_t output_at, std::size_t count) {
    if (count == 0) return;
    add({.kind = PieceKind::kCopy, .input_at = input_at, .output_at = output_at, .count = count});
  }
  std::vector<Piece> take() { return std::move(pieces_); }

 private:
  const Site site_;
  std::size_t round_ = 0;
  std::vector<Piece> pieces_;
};

void plan_all_to_all(Planner& planner, const Request& request, const Site& site) {
  const Spread to(request.counts, request.count, site.ranks);
  const Spread from(request.receive_counts, request.count, site.ranks);
  planner.copy(to.start(site.rank), from.start(site.rank), to.count(site.rank));
  for (int distance = 1; distance < site.ranks; ++distance) {
    const Rank right = (site.rank + distance) % site.ranks;
    const Rank left = (site.rank + site.ranks - distance) % site.ranks;
    planner.cut({.kind = PieceKind::kReceive,
                 .peer = left,
                 .output_at = from.start(left),
                 .count = from.count(left)},
                true);
    planner.cut({.kind = PieceKind::kSend,
                 .peer = right,
                 .input_at = to.start(right),
                 .count = to.count(right)},
                true);
  }
}

void plan_gather(Planner& planner, const Request& request, const Site& site) {
  const Spread parts(request.counts, request.count, site.ranks);
  if (site.rank != request.root) {
    planner.cut({.kind = PieceKind::kSend, .peer = request.root, .count = parts.count(site.rank)});
    return;
  }
  for (Rank from = 0; from < site.ranks; ++from) {
    if (from == site.rank) {
      planner.copy(0, parts.start(from), parts.count(from));
    } else {
      planner.cut({.kind = PieceKind::kReceive,
                   .peer = from,
                   .output_at = parts.start(from),
                   .count = parts.count(from)});
    }
  }
}

void plan_scatter(Planner& planner, const Request& request, const Site& site) {
  const Spread parts(request.counts, request.count, site.ranks);
  if (site.rank != request.root) {
    planner.cut(
        {.kind = PieceKind::kReceive, .peer = request.root, .count = parts.count(site.rank)});
    return;
  }
  for (Rank to = 0; to < site.ranks; ++to) {
    if (to == site.rank) {
      planner.copy(parts.start(to), 0, parts.count(to));
    } else {
      planner.cut({.kind = PieceKind::kSend,
                   .peer = to,
                   .input_at = parts.start(to),
                   .count = parts.count(to)});
    }
  }
}

}  // namespace

bool fits(const Request& request, const Site& site) {
  switch (request.operation) {
    case Operation::kBarrier:
      return true;
    case Operation::kAllreduce:
    case Operation::kBroadcast:
    case Operation::kReduce:
    case Operation::kSend:
    case Operation::kReceive:
      return request.count <= site.most;
    case Operation::kReduceScatter:
    case Operation::kAllgather:
    case Operation::kGather:
    case Operation::kScatter:
      return total(request.counts, request.count, site.ranks) <= site.most;
    case Operation::kAllToAll:
      // Each pair has counts of its own, so ranks could come to different answers, and
      // MPI_Ialltoallv does not match messages: unequal parts are always sent one by one, all at
      // once.
      if (!request.counts.empty()) return false;
      return total({}, request.count, site.ranks) <= site.most;
  }
  return true;
}

std::vector<Piece> plan(const Request& request, const Site& site) {
  if (fits(request, site)) return {Piece{.kind = PieceKind::kWhole}};
  Planner planner(site);
  const Spread parts(request.counts, request.count, site.ranks);
  switch (request.operation) {
    case Operation::kBarrier:
      break;
    case Operation::kAllreduce:
      planner.cut({.kind = PieceKind::kAllreduce, .count = request.count});
      break;
    case Operation::kBroadcast:
      planner.cut({.kind = PieceKind::kBroadcast, .peer = request.root, .count = request.count});
      break;
    case Operation::kReduce:
      planner.cut({.kind = PieceKind::kReduce, .peer = request.root, .count = request.count});
      break;
    case Operation::kReduceScatter:
      for (Rank root = 0; root < site.ranks; ++root)
        planner.cut({.kind = PieceKind::kReduce,
                     .peer = root,
                     .input_at = parts.start(root),
                     .count = parts.count(root)});
      break;
    case Operation::kAllgather:
      for (Rank root = 0; root < site.ranks; ++root)
        planner.cut({.kind = PieceKind::kBroadcast,
                     .peer = root,
                     .output_at = parts.start(root),
                     .count = parts.count(root)});
      break;
    case Operation::kGather:
      plan_gather(planner, request, site);
      break;
    case Operation::kScatter:
      plan_scatter(planner, request, site);
      break;
    case Operation::kAllToAll:
      plan_all_to_all(planner, request, site);
      break;
    // All chunks at once: messages of one tag keep the order in which they were issued, also
    // between two operations.
    case Operation::kSend:
      planner.cut({.kind = PieceKind::kSend, .peer = request.root, .count = request.count}, true);
      break;
    case Operation::kReceive:
      planner.cut({.kind = PieceKind::kReceive, .peer = request.root, .count = request.count},
                  true);
      break;
  }
  return planner.take();
}

}  // namespace tally::mpi
