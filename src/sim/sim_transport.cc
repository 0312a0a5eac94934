#include "sim/sim_transport.h"

#include <algorithm>

#include "base/check.h"
#include "base/errors.h"

namespace tally::sim {
namespace {

constexpr Duration kCloseTimeout = std::chrono::seconds(1);
// A thread that polls this often without waiting lets virtual time pass.
constexpr int kPatience = 64;
constexpr Duration kPollingTime = std::chrono::microseconds(1);
// The sleep of a dead rank, which has nothing to wait for.
constexpr Duration kDeadTime = std::chrono::milliseconds(1);

void count(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) {
  counter.fetch_add(more, std::memory_order_relaxed);
}

}  // namespace

SimTransport::SimTransport(Network& network, Rank rank, std::uint32_t generation)
    : network_(network),
      rank_(rank),
      generation_(generation),
      peers_(static_cast<std::size_t>(network.size())) {
  TALLY_CHECK(0 <= rank && rank < network.size());
}

SimTransport::~SimTransport() {
  if (!closed_) network_.die(rank_, "its process ended without a goodbye");
}

SimTransport::Peer& SimTransport::peer_of(Rank rank) {
  TALLY_CHECK(0 <= rank && rank < size() && rank != rank_);
  return peers_[static_cast<std::size_t>(rank)];
}

void SimTransport::post(Rank to, net::Outgoing& message) {
  Peer& peer = peer_of(to);
  if (closed_ || peer.gone) {
    message.finish();
    return;
  }
  peer.queue.push_back(&message);
  send_queued(to);
}

void SimTransport::withdraw(Rank to, net::Outgoing& message) {
  std::erase(peer_of(to).queue, &message);
}

void SimTransport::abandon(Rank rank) {
  Peer& peer = peer_of(rank);
  peer.gone = true;
  peer.held.reset();
  for (net::Outgoing* message : peer.queue) message->finish();
  peer.queue.clear();
}

bool SimTransport::send_queued(Rank to) {
  Peer& peer = peer_of(to);
  bool moved = false;
  while (!peer.queue.empty() && send_frame(to, *peer.queue.front())) {
    moved = true;
    if (peer.queue.front()->sent()) peer.queue.pop_front();
  }
  return moved;
}

// Sends the next frame of `message`; false if there is no room for it, or this rank is dead.
bool SimTransport::send_frame(Rank to, net::Outgoing& message) {
  const std::size_t total = message.payload.size();
  const bool may_be_cut = message.header.kind == wire::FrameKind::kData ||
                          message.header.kind == wire::FrameKind::kPoint;
  const std::size_t largest =
      may_be_cut ? network_.conditions().frame_bytes : wire::kMaxPayloadBytes;
  const std::size_t bytes = std::min(total - message.queued_bytes_, largest);
  if (!network_.has_room(rank_, to, bytes)) return false;
  Frame frame;
  frame.header = message.header;
  frame.header.generation = generation_;
  frame.header.message_bytes = total;
  frame.header.offset_bytes = message.queued_bytes_;
  frame.header.payload_bytes = static_cast<std::uint32_t>(bytes);
  frame.header.payload_checksum = 0;
  if (message.payload.data() != nullptr) {
    const auto part = message.payload.subspan(message.queued_bytes_, bytes);
    frame.payload.assign(part.begin(), part.end());
  }
  if (!network_.send(rank_, to, std::move(frame))) return false;
  count(counters_.frames_sent);
  count(counters_.payload_bytes_sent, bytes);
  message.queued_bytes_ += bytes;
  if (message.queued_bytes_ == total) message.finish();
  return true;
}

bool SimTransport::progress(net::Receiver& receiver) {
  network_.look(rank_);
  if (closed_) return false;
  bool moved = false;
  for (Rank peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    moved |= send_queued(peer);
    while (read(peer, receiver)) moved = true;
  }
  if (const std::optional<Error> death = network_.death(rank_)) {
    moved |= report_death(*death, receiver);
  }
  if (moved) {
    idle_looks_ = 0;
  } else if (++idle_looks_ >= kPatience) {
    wait(network_.clock().after(kPollingTime));
  }
  return moved;
}

// Takes one frame of `from`; false if there is none, or the receiver has no room for it.
bool SimTransport::read(Rank from, net::Receiver& receiver) {
  Peer& peer = peer_of(from);
  if (peer.gone || (!peer.held && !network_.has_arrived(rank_, from))) return false;
  if (network_.death(rank_)) return false;
  if (!peer.held) peer.held = network_.take(rank_, from);
  if (!peer.held) return false;
  const Frame& frame = *peer.held;
  if (frame.loss) {
    const Error loss = *frame.loss;
    abandon(from);
    receiver.lost(from, loss);
    return true;
  }
  if (frame.damaged) {
    count(counters_.corrupt_frames);
    abandon(from);
    network_.hang_up(rank_, from);
    receiver.lost(from, make_error(ErrorCode::kCorrupt, from, "a frame arrived damaged"));
    return true;
  }
  if (frame.header.generation != generation_) {
    count(counters_.stale_frames);
  } else if (!offer(from, frame, receiver)) {
    return false;
  }
  const bool last = frame.header.kind == wire::FrameKind::kGoodbye;
  network_.give_back(rank_, from, frame.header.payload_bytes);
  peer.held.reset();
  if (last) abandon(from);
  return true;
}

bool SimTransport::offer(Rank from, const Frame& frame, net::Receiver& receiver) {
  const std::size_t bytes = frame.header.payload_bytes;
  const std::span<std::byte> place = receiver.place(from, frame.header);
  TALLY_CHECK(place.empty() || place.size() == bytes);
  std::span<const std::byte> payload = frame.payload;
  if (!place.empty()) {
    std::copy(payload.begin(), payload.end(), place.begin());
    payload = place;
  } else if (payload.empty()) {
    payload = {static_cast<const std::byte*>(nullptr), bytes};
  }
  if (receiver.deliver(from, frame.header, payload) == net::Acceptance::kHold) return false;
  count(counters_.frames_received);
  count(counters_.payload_bytes_received, bytes);
  return true;
}

bool SimTransport::report_death(const Error& death, net::Receiver& receiver) {
  bool moved = false;
  for (Rank peer = 0; peer < size(); ++peer) {
    if (peer == rank_ || peer_of(peer).gone) continue;
    abandon(peer);
    receiver.lost(peer, death);
    moved = true;
  }
  return moved;
}

void SimTransport::wait(Deadline by) {
  // A call after the deadline also counts as polling.
  if (!by.passed(network_.clock().now())) idle_looks_ = 0;
  if (network_.death(rank_)) by = earlier(by, network_.clock().after(kDeadTime));
  network_.wait(rank_, by);
}

void SimTransport::close() {
  if (closed_) return;
  const Deadline by = network_.clock().after(kCloseTimeout);
  const auto queued = [&] {
    bool any = false;
    for (Rank peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      send_queued(peer);
      any = any || !peer_of(peer).queue.empty();
    }
    return any;
  };
  while (queued() && !network_.death(rank_) && !by.passed(network_.clock().now())) {
    network_.look(rank_);
    wait(by);
  }
  for (Rank peer = 0; peer < size(); ++peer) {
    if (peer == rank_ || peer_of(peer).gone) continue;
    Frame goodbye;
    goodbye.header = {.kind = wire::FrameKind::kGoodbye, .generation = generation_};
    network_.send(rank_, peer, std::move(goodbye));
    abandon(peer);
  }
  network_.depart(rank_);
  closed_ = true;
}

}  // namespace tally::sim
