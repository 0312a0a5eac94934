#include "net/router.h"

#include <algorithm>

#include "base/check.h"

namespace tally::net {
namespace {

constexpr std::size_t kMaxEarlyBytes = std::size_t{16} << 20;
// The interval at which a waiting thread checks its condition while another drives the transport.
constexpr Duration kFollowerPeriod = std::chrono::milliseconds(5);

}  // namespace

void Router::open(std::uint32_t id, Channel& channel) {
  TALLY_CHECK(id >= unused_id_);
  unused_id_ = id + 1;
  channels_[id] = &channel;
  for (const auto& [peer, why] : lost_) channel.lost(peer, why);
  for (const Rank peer : departed_) channel.departed(peer);
  std::vector<Early> kept;
  for (Early& early : early_) {
    if (early.header.channel != id) {
      kept.push_back(std::move(early));
      continue;
    }
    early_bytes_ -= sizeof(Early) + early.payload.size();
    // A new channel has room for all early frames.
    TALLY_CHECK(channel.deliver(early.from, early.header, early.payload) == Acceptance::kTaken);
  }
  early_ = std::move(kept);
}

void Router::close(std::uint32_t id) { channels_.erase(id); }

void Router::skip_id(std::uint32_t id) { unused_id_ = std::max(unused_id_, id + 1); }

bool Router::progress() {
  const bool moved = transport_.progress(*this);
  if (moved) changed_.notify_all();
  return moved;
}

void Router::wait(Deadline by, const std::function<bool()>& ready) {
  if (asleep_) {
    const Duration left = by.remaining(clock_.now());
    changed_.wait_for(mutex, left < kFollowerPeriod ? left : kFollowerPeriod);
    return;
  }
  transport_.prepare_wait();
  if (progress() || ready()) {
    transport_.cancel_wait();
    return;
  }
  asleep_ = true;
  mutex.unlock();
  transport_.wait(by);
  mutex.lock();
  asleep_ = false;
  changed_.notify_all();
}

// transport_.progress(), which is called with the mutex held, calls the following three functions.

std::span<std::byte> Router::place(Rank from, const wire::FrameHeader& header)
    TALLY_NO_THREAD_SAFETY_ANALYSIS {
  const auto found = channels_.find(header.channel);
  return found == channels_.end() ? std::span<std::byte>() : found->second->place(from, header);
}

Acceptance Router::deliver(Rank from, const wire::FrameHeader& header,
                           std::span<const std::byte> payload) TALLY_NO_THREAD_SAFETY_ANALYSIS {
  if (header.kind == wire::FrameKind::kGoodbye) {
    departed_.insert(from);
    for (const auto& [id, channel] : channels_) channel->departed(from);
    return Acceptance::kTaken;
  }
  const auto found = channels_.find(header.channel);
  if (found != channels_.end()) return found->second->deliver(from, header, payload);
  if (header.channel < unused_id_) return Acceptance::kTaken;  // this rank has closed the channel
  // Empty frames take room as well.
  const std::size_t bytes = sizeof(Early) + payload.size();
  if (early_bytes_ + bytes > kMaxEarlyBytes) return Acceptance::kHold;
  early_bytes_ += bytes;
  early_.push_back({from, header, {payload.begin(), payload.end()}});
  return Acceptance::kTaken;
}

void Router::lost(Rank peer, const Error& why) TALLY_NO_THREAD_SAFETY_ANALYSIS {
  lost_.emplace(peer, why);
  for (const auto& [id, channel] : channels_) channel->lost(peer, why);
}

}  // namespace tally::net
