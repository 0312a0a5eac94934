#include "exchange/server/server_meetings.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace tally::exchange {
namespace {

// Gradients of one worker that servers have not answered, and the one that it computes: fewer than
// this.
constexpr std::uint64_t kMostUnderWay = 4;
// Bytes that one float64 represents as an exact whole number.
constexpr std::size_t kBytesOfValue = 6;

}  // namespace

// Broadcast by sums: the first rank contributes its bytes, the others zeros.
Result<void> ServerMeetings::broadcast(std::span<std::byte> bytes) {
  if (bytes.empty() || worker_.ranks() == 1) return {};
  std::vector<double> values((bytes.size() + kBytesOfValue - 1) / kBytesOfValue);
  const auto piece_of = [bytes](std::size_t i) {
    const std::size_t begin = i * kBytesOfValue;
    return bytes.subspan(begin, std::min(kBytesOfValue, bytes.size() - begin));
  };
  for (std::size_t i = 0; is_first() && i < values.size(); ++i) {
    std::uint64_t whole = 0;
    std::memcpy(&whole, piece_of(i).data(), piece_of(i).size());
    values[i] = static_cast<double>(whole);
  }
  TALLY_TRY(worker_.sum(values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto whole = static_cast<std::uint64_t>(values[i]);
    std::memcpy(piece_of(i).data(), &whole, piece_of(i).size());
  }
  return {};
}

// asp: workers that compute when the last gradient of a step arrives would push too many. They
// therefore meet before that, when all gradients that may be under way still fit, and share the
// missing ones.
bool ServerMeetings::is_due(std::uint64_t step) {
  if (!worker_.counts_gradients()) return worker_.steps() >= step;
  const std::uint64_t version = worker_.version_of(step);
  if (std::exchange(version_, version) != version) clock_.reset();
  if (clock_) return worker_.clock().clock >= *clock_;
  return worker_.known_version() + kMostUnderWay * static_cast<std::uint64_t>(worker_.ranks()) >=
         version;
}

// `present` has a positive value for each rank that is at this meeting.
void ServerMeetings::share_missing_gradients(std::span<const double> present) {
  clock_.reset();
  const std::uint64_t version = worker_.known_version();
  if (version >= version_) return;
  std::uint64_t workers = 0;
  std::uint64_t before = 0;  // with lower ranks
  for (std::size_t rank = 0; rank < present.size(); ++rank) {
    if (present[rank] <= 0) continue;
    ++workers;
    if (rank < static_cast<std::size_t>(worker_.rank())) ++before;
  }
  const std::uint64_t missing = version_ - version;
  clock_ = worker_.clock().clock + missing / workers + (before < missing % workers ? 1 : 0);
}

Result<void> ServerMeetings::meet(std::span<double> values) {
  TALLY_TRY(step_.flush());
  // With kbatch and kasync a push may wait for more gradients than the workers at this meeting have
  // pushed.
  if (!worker_.rules().counts_gradients()) TALLY_TRY(step_.settle());
  // The steps of each rank that is here, plus 1, follow the values.
  std::vector<double> all(values.begin(), values.end());
  all.resize(values.size() + static_cast<std::size_t>(worker_.ranks()));
  const std::span<double> present = std::span(all).subspan(values.size());
  present[static_cast<std::size_t>(worker_.rank())] = 1 + static_cast<double>(worker_.steps());
  TALLY_TRY(worker_.sum(all));
  std::copy_n(all.begin(), values.size(), values.begin());
  worker_.met(static_cast<std::uint64_t>(*std::max_element(present.begin(), present.end()) - 1));
  TALLY_TRY(worker_.refresh());
  step_.renew();
  if (worker_.counts_gradients()) share_missing_gradients(present);
  // No rank pushes before all ranks have the same values.
  return worker_.barrier();
}

}  // namespace tally::exchange
