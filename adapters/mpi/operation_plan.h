#pragma once
#include <cstddef>
#include <vector>

#include "tally/communicator.h"

namespace tally::mpi {

// MPI counts in int. An operation whose counts and displacements fit is one call of the library; a
// larger one is cut into pieces that fit. Offsets and counts are in elements.
enum class PieceKind {
  kWhole,      // the request as it is, by the collective of its name
  kCopy,       // inside this rank
  kAllreduce,  // the rest: one call each on a part of the buffers
  kBroadcast,  // the root's input is copied to its output first where they are apart
  kReduce,
  kSend,
  kReceive,
};

struct Piece {
  PieceKind kind = PieceKind::kWhole;
  // Pieces of one round are under way together, and end before the next round begins.
  std::size_t round = 0;
  Rank peer = kNoRank;  // root of kBroadcast and kReduce
  std::size_t input_at = 0;
  std::size_t output_at = 0;
  std::size_t count = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// No MPI call moves more elements, or starts further from its buffer, than `most`.
struct Site {
  Rank rank = 0;
  int ranks = 1;
  std::size_t most = 0;
};

// Whether the request is one call of the library.
bool fits(const Request& request, const Site& site);

// The pieces of a request that collective::check() found sound, in the order of their rounds. All
// ranks get plans that match: what one sends another receives, in the same order.
std::vector<Piece> plan(const Request& request, const Site& site);

}  // namespace tally::mpi
