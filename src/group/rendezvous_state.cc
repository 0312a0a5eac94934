#include "group/rendezvous_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/names.h"
#include "base/option_text.h"

namespace tally::group {
namespace {

constexpr std::string_view kIdentity = "tally rank ";

std::string who(const Hello& hello) {
  return fmt::format("rank {} (pid {} on {})", hello.rank, hello.pid, hello.host_name);
}

std::string_view name_of(TransportKind kind) {
  return name_in<TransportKind::kTls>({"auto", "shm", "tcp", "tls"}, kind);
}

}  // namespace

Rank rank_in_identity(const std::string& identity) {
  if (identity.rfind(kIdentity, 0) != 0) return kNoRank;
  return parse_as<Rank>(std::string_view(identity).substr(kIdentity.size())).value_or(kNoRank);
}

Result<void> RendezvousState::compare(const Hello& first, const Hello& second) const {
  if (first.size != second.size) {
    return make_error(ErrorCode::kMismatch, second.rank, "{} expects {} ranks, {} expects {}",
                      who(first), first.size, who(second), second.size);
  }
  if (first.transport != second.transport) {
    return make_error(ErrorCode::kMismatch, second.rank, "{} wants transport {}, {} wants {}",
                      who(first), name_of(first.transport), who(second), name_of(second.transport));
  }
  return {};
}

Result<void> RendezvousState::arrive(const Hello& hello) {
  if (!present_.empty()) TALLY_TRY(compare(present_.begin()->second, hello));
  if (hello.rank < 0 || hello.rank >= size_)
    return make_error(ErrorCode::kMismatch, hello.rank, "{} is not one of {} ranks", who(hello),
                      size_);
  if (hello.generation != generation_) {
    return make_error(ErrorCode::kMismatch, hello.rank, "{} wants generation {}, this is {}",
                      who(hello), hello.generation, generation_);
  }
  const auto [place, is_new] = present_.emplace(hello.rank, hello);
  if (!is_new) {
    return make_error(ErrorCode::kRefused, hello.rank,
                      "rank {} came twice: pid {} on {} and pid {} on {}", hello.rank,
                      place->second.pid, place->second.host_name, hello.pid, hello.host_name);
  }
  lost_.insert(hello.lost.begin(), hello.lost.end());
  return {};
}

void RendezvousState::turn_away(const std::string& claimed, const Error& why) {
  // Strangers can claim any number of names.
  const auto most = static_cast<std::size_t>(size_) + 1;
  if (turned_away_.size() < most || turned_away_.contains(claimed))
    turned_away_.insert_or_assign(claimed, why);
}

std::vector<Rank> RendezvousState::missing() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size_; ++rank)
    if (!present_.contains(rank) && !lost_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

std::vector<Hello> RendezvousState::members() const {
  std::vector<Hello> members;
  for (const auto& [rank, hello] : present_) members.push_back(hello);
  return members;
}

Error RendezvousState::error_at_deadline() const {
  const std::vector<Rank> ranks = missing();
  Error verdict{.code = ErrorCode::kTimeout,
                .peer = ranks.empty() ? kNoRank : ranks.front(),
                .message = fmt::format("rank {} did not join in time; {} of {} came",
                                       fmt::join(ranks, ", "), present_.size(), size_)};
  for (const auto& [claimed, why] : turned_away_) {
    const Rank rank = rank_in_identity(claimed);
    if (verdict.code == ErrorCode::kTimeout && rank == verdict.peer) verdict.code = why.code;
    verdict.message +=
        fmt::format("; turned away: {}: {}", claimed.empty() ? "a stranger" : claimed, why.message);
  }
  return verdict;
}

}  // namespace tally::group
