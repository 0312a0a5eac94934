#include "net/shm_transport.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "base/check.h"
#include "base/errors.h"

namespace tally::net {
namespace {

// The period in which a sleeper checks whether the processes of its peers are alive.
constexpr Duration kLivenessPeriod = std::chrono::milliseconds(20);
constexpr Duration kCloseTimeout = std::chrono::seconds(1);
// Frames taken from one peer before the next peer's turn.
constexpr int kFramesPerTurn = 64;

int index_of(const std::vector<Rank>& members, Rank rank) {
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

void count(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

ShmTransport::ShmTransport(std::shared_ptr<Segment> segment, Options options, const Clock& clock)
    : segment_(std::move(segment)),
      options_(std::move(options)),
      clock_(clock),
      self_(index_of(options_.members, options_.rank)) {
  TALLY_CHECK(self_ >= 0);
  TALLY_CHECK(static_cast<int>(options_.members.size()) == segment_->members());
  for (int member = 0; member < segment_->members(); ++member) {
    if (member == self_) {
      peers_.push_back(nullptr);
      continue;
    }
    const std::size_t capacity = segment_->layout().ring_bytes;
    peers_.push_back(
        std::make_unique<Peer>(Peer{.rank = options_.members[static_cast<std::size_t>(member)],
                                    .out = FrameRing(segment_->ring(self_, member), capacity),
                                    .in = FrameRing(segment_->ring(member, self_), capacity)}));
  }
  segment_->line(self_).state.store(MemberState::kAlive, std::memory_order_release);
}

ShmTransport::~ShmTransport() {
  if (closed_) return;
  segment_->line(self_).state.store(MemberState::kDead, std::memory_order_release);
  segment_->notify_others(self_);
}

int ShmTransport::member_of(Rank rank) const { return index_of(options_.members, rank); }

ShmTransport::Peer& ShmTransport::peer_of(Rank rank) {
  const int member = member_of(rank);
  TALLY_CHECK(member >= 0 && member != self_);
  return *peers_[static_cast<std::size_t>(member)];
}

MemberLine& ShmTransport::line_of(const Peer& peer) const {
  return segment_->line(member_of(peer.rank));
}

void ShmTransport::post(Rank to, Outgoing& message) {
  Peer& peer = peer_of(to);
  if (peer.gone) {
    message.finish();
    return;
  }
  peer.queue.push_back(&message);
  push_queued(peer);
}

void ShmTransport::withdraw(Rank to, Outgoing& message) { std::erase(peer_of(to).queue, &message); }

void ShmTransport::abandon(Peer& peer) {
  peer.gone = true;
  for (Outgoing* message : peer.queue) message->finish();
  peer.queue.clear();
}

bool ShmTransport::push_frames_of(Peer& peer, Outgoing& message) {
  const std::size_t total = message.payload.size();
  bool moved = false;
  do {
    const std::size_t bytes = std::min(total - message.queued_bytes_, peer.out.max_payload_bytes());
    wire::FrameHeader header = message.header;
    header.generation = options_.generation;
    header.number = peer.frames_out;
    header.message_bytes = total;
    header.offset_bytes = message.queued_bytes_;
    header.payload_bytes = static_cast<std::uint32_t>(bytes);
    header.payload_checksum = 0;
    if (!peer.out.push(header, message.payload.subspan(message.queued_bytes_, bytes))) return moved;
    moved = true;
    ++peer.frames_out;
    message.queued_bytes_ += bytes;
    count(counters_.frames_sent);
    count(counters_.payload_bytes_sent, bytes);
    segment_->notify(member_of(peer.rank));
  } while (message.queued_bytes_ < total);
  message.finish();
  return moved;
}

bool ShmTransport::push_queued(Peer& peer) {
  bool moved = false;
  while (!peer.queue.empty()) {
    Outgoing& message = *peer.queue.front();
    moved |= push_frames_of(peer, message);
    if (!message.sent()) break;
    peer.queue.pop_front();
  }
  return moved;
}

Result<bool> ShmTransport::read_one(Peer& peer, Receiver& receiver) {
  TALLY_TRY(const auto front, peer.in.front());
  if (!front) return false;
  const wire::FrameHeader& header = front->header;
  if (header.number != peer.frames_in || header.offset_bytes > header.message_bytes ||
      header.payload_bytes > header.message_bytes - header.offset_bytes) {
    return make_error(ErrorCode::kCorrupt, peer.rank, "frame {} of rank {} makes no sense",
                      header.number, peer.rank);
  }
  if (header.generation != options_.generation) {
    count(counters_.stale_frames);
  } else {
    std::span<const std::byte> payload = front->payload;
    const std::span<std::byte> place = receiver.place(peer.rank, header);
    if (!place.empty()) {
      std::copy(payload.begin(), payload.end(), place.begin());
      payload = place;
    }
    if (receiver.deliver(peer.rank, header, payload) == Acceptance::kHold) return false;
    count(counters_.frames_received);
    count(counters_.payload_bytes_received, header.payload_bytes);
  }
  ++peer.frames_in;
  peer.in.pop();
  segment_->notify(member_of(peer.rank));
  return true;
}

bool ShmTransport::read_frames(Peer& peer, Receiver& receiver) {
  bool moved = false;
  for (int turn = 0; turn < kFramesPerTurn && !peer.gone; ++turn) {
    const auto read = read_one(peer, receiver);
    if (!read.has_value()) {
      count(counters_.corrupt_frames);
      abandon(peer);
      receiver.lost(peer.rank, read.error());
      return true;
    }
    if (!*read) break;
    moved = true;
  }
  return moved;
}

void ShmTransport::notice_loss(Peer& peer, Receiver& receiver) {
  const MemberState state = line_of(peer).state.load(std::memory_order_acquire);
  if (state != MemberState::kDead && state != MemberState::kDeparted) return;
  // Frames that the peer sent before it ended are still delivered.
  while (read_frames(peer, receiver)) {
  }
  if (peer.gone) return;
  abandon(peer);
  if (state == MemberState::kDeparted) {
    receiver.deliver(peer.rank, {.kind = wire::FrameKind::kGoodbye}, {});
  } else {
    receiver.lost(peer.rank,
                  {.code = ErrorCode::kPeerLost,
                   .peer = peer.rank,
                   .message = fmt::format("the process of rank {} has ended", peer.rank)});
  }
}

bool ShmTransport::progress(Receiver& receiver) {
  bool moved = false;
  for (auto& peer : peers_) {
    if (!peer || peer->gone) continue;
    moved |= push_queued(*peer);
    moved |= read_frames(*peer, receiver);
    if (!peer->gone) notice_loss(*peer, receiver);
    moved |= peer->gone;
  }
  return moved;
}

void ShmTransport::check_processes() {
  if (options_.processes.empty()) return;
  std::vector<pollfd> polled;
  for (const Descriptor& process : options_.processes)
    polled.push_back({process.descriptor(), POLLIN, 0});
  if (::poll(polled.data(), polled.size(), 0) <= 0) return;
  for (int member = 0; member < segment_->members(); ++member) {
    if ((polled[static_cast<std::size_t>(member)].revents & POLLIN) == 0) continue;
    auto alive = MemberState::kAlive;
    if (segment_->line(member).state.compare_exchange_strong(alive, MemberState::kDead))
      segment_->notify_others(self_);
  }
}

void ShmTransport::prepare_wait() { segment_->announce_sleep(self_); }

void ShmTransport::cancel_wait() { segment_->cancel_sleep(self_); }

void ShmTransport::wait(Deadline by) {
  const TimePoint now = clock_.now();
  segment_->sleep(self_, earlier(by, Deadline::at(now + kLivenessPeriod)), now);
  check_processes();
}

void ShmTransport::wake() {
  segment_->line(self_).doorbell.fetch_add(1);
  segment_->notify(self_);
}

void ShmTransport::close() {
  if (closed_) return;
  closed_ = true;
  // Sends queued frames as far as the peers take them within a short time.
  const Deadline by = clock_.after(kCloseTimeout);
  for (auto& peer : peers_) {
    while (peer && !peer->gone && !peer->queue.empty() && !by.passed(clock_.now())) {
      push_queued(*peer);
      if (line_of(*peer).state.load() != MemberState::kAlive) abandon(*peer);
      if (!peer->queue.empty()) {
        prepare_wait();
        wait(clock_.after(std::chrono::milliseconds(1)));
      }
    }
    if (peer) abandon(*peer);
  }
  segment_->line(self_).state.store(MemberState::kDeparted, std::memory_order_release);
  segment_->notify_others(self_);
}

}  // namespace tally::net
