#include "server/link/link.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "kernel/crc32c/crc32c.h"

namespace tally::server {
namespace {

using net::Io;

// Limit of the bytes that a sending thread writes itself.
constexpr std::size_t kSendBudgetBytes = std::size_t{4} << 20;
// Limit of headers that are collected, so that the peer has work meanwhile.
constexpr int kMostGathered = 8;

}  // namespace

Link::Link(const Config& config, std::unique_ptr<net::Stream> socket, Shared& shared)
    : config_(config), socket_(std::move(socket)), shared_(shared), sender_(shared.pool) {}

Link::~Link() { unwatch(); }

void Link::send(const MessageHeader& header, std::vector<std::byte> payload) {
  enqueue(header, std::move(payload), {}, 0);
}

void Link::send_from(const MessageHeader& header, std::span<const std::byte> payload,
                     std::span<std::byte> reply) {
  if (!socket_->local()) return enqueue(header, {}, payload, 0);
  MessageHeader placed = header;
  placed.payload_place = shared_.regions.find(payload);
  placed.reply_place = shared_.regions.find(reply);
  placed.reply_bytes = placed.reply_place != 0 ? static_cast<std::uint32_t>(reply.size()) : 0;
  if (placed.payload_place != 0) placed.payload_bytes = static_cast<std::uint32_t>(payload.size());
  const std::uint16_t newest =
      std::max(region_of(placed.payload_place), region_of(placed.reply_place));
  enqueue(placed, {}, placed.payload_place != 0 ? std::span<const std::byte>() : payload, newest);
}

void Link::send_written(const MessageHeader& header, std::size_t bytes) {
  MessageHeader written = header;
  written.reply_place = kWritten;
  written.reply_bytes = static_cast<std::uint32_t>(bytes);
  enqueue(written, {}, {}, 0);
}

void Link::enqueue(const MessageHeader& header, std::vector<std::byte> owned,
                   std::span<const std::byte> borrowed, std::uint16_t newest_region) {
  QueuedMessage out{.header = {}, .owned = std::move(owned), .payload = borrowed, .descriptor = -1};
  if (!out.owned.empty()) out.payload = out.owned;
  MessageHeader filled = header;
  if (filled.payload_place == 0) {
    filled.payload_bytes = static_cast<std::uint32_t>(out.payload.size());
    filled.payload_checksum =
        socket_->checksummed() && !out.payload.empty() ? kernel::crc32c(out.payload) : 0;
  }
  out.header = encode(filled);
  {
    const MutexLock lock(tx_);
    if (closed() || failed_) return;
    // Nothing is queued except collected headers.
    const bool free = sender_.idle() || gathered_ > 0;
    const bool gathers = in_burst_ && free && out.payload.empty() && gathered_ + 1 < kMostGathered;
    gathered_ = gathers ? gathered_ + 1 : 0;
    const bool at_once = free && !gathers;
    if (newest_region > shown_) show_regions(newest_region);
    sender_.queue(std::move(out));
    backlog_.store(sender_.owned_bytes(), std::memory_order_relaxed);
    if (at_once) pump(kSendBudgetBytes);
    // The backlog also grows when nothing is written because the peer does not read.
    backlog_.store(sender_.owned_bytes(), std::memory_order_relaxed);
  }
  update_interest();
}

void Link::show_regions(std::uint16_t newest) {
  while (shown_ < newest) {
    const Mapping& region = shared_.regions.region(++shown_);
    sender_.queue(
        {.header = encode({.kind = MessageKind::kRegion, .sequence = region.bytes().size()}),
         .descriptor = region.descriptor()});
  }
}

void Link::pump(std::size_t budget_bytes) {
  const LinkSender::Pumped pumped = sender_.pump(*socket_, budget_bytes);
  shared_.counters.bytes_sent.fetch_add(pumped.bytes, std::memory_order_relaxed);
  Io::State end = pumped.end;
  if (sender_.idle() && socket_->wants_write()) end = socket_->flush().state;
  if (end == Io::State::kClosed || end == Io::State::kFailed) {
    failed_ = true;
    write_error_ = end == Io::State::kFailed
                       ? socket_->failure()
                       : make_error(ErrorCode::kPeerLost, "connection closed");
    sender_.clear();
  }
  backlog_.store(sender_.owned_bytes(), std::memory_order_relaxed);
  // The event loop also looks at a failed link, and finds the error.
  wants_out_.store(failed_ || !sender_.idle() || socket_->wants_write(), std::memory_order_release);
}

bool Link::flush(std::size_t budget_bytes) {
  bool alive = true;
  {
    const MutexLock lock(tx_);
    if (!closed() && !failed_) pump(budget_bytes);
    alive = !closed() && !failed_;
  }
  update_interest();
  return alive;
}

bool Link::flushed() const {
  const MutexLock lock(tx_);
  return closed() || failed_ || (sender_.idle() && !socket_->wants_write());
}

LinkReceiver::Pumped Link::receive(LinkReceiver::Sink& sink, std::size_t budget_bytes) {
  if (closed()) return {.end = LinkReceiver::End::kShut};
  {
    const MutexLock lock(tx_);
    in_burst_ = true;
  }
  LinkReceiver::Pumped pumped = receiver_.pump(*socket_, sink, budget_bytes);
  {
    const MutexLock lock(tx_);
    in_burst_ = false;
    if (std::exchange(gathered_, 0) > 0 && !closed() && !failed_) pump(kSendBudgetBytes);
  }
  shared_.counters.bytes_received.fetch_add(pumped.bytes, std::memory_order_relaxed);
  if (pumped.end == LinkReceiver::End::kFailed) read_error_ = receiver_.failure();
  // Buffered bytes wait until flush() has made room; its caller calls this then.
  const bool wants_in = !choked();
  if (!wants_in && pumped.end == LinkReceiver::End::kMore) pumped.end = LinkReceiver::End::kDrained;
  wants_in_.store(wants_in, std::memory_order_release);
  update_interest();
  return pumped;
}

void Link::pause_reading() {
  wants_in_.store(false, std::memory_order_release);
  update_interest();
}

bool Link::discard() {
  receiver_.shut();
  std::array<std::byte, 4096> bytes;
  const iovec part{bytes.data(), bytes.size()};
  while (true) {
    const Io io = socket_->read({&part, 1});
    if (io.state != Io::State::kMoved) return io.state == Io::State::kBlocked;
  }
}

void Link::close() {
  closed_.store(true, std::memory_order_release);
  receiver_.shut();
  const MutexLock lock(tx_);
  sender_.clear();
}

Error Link::error() const {
  const MutexLock lock(tx_);
  if (!read_error_.message.empty()) return read_error_;
  if (failed_) return write_error_;
  return make_error(ErrorCode::kClosed, "the link was dropped");
}

Result<void> Link::watch(int epoll) {
  const MutexLock lock(interest_);
  epoll_event event{};
  events_ = EPOLLIN | EPOLLOUT;
  event.events = events_;
  event.data.ptr = this;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, socket_->descriptor(), &event) != 0)
    return net::socket_error("epoll", errno);
  epoll_ = epoll;
  return {};
}

void Link::unwatch() {
  const MutexLock lock(interest_);
  if (epoll_ >= 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket_->descriptor(), nullptr);
  epoll_ = -1;
}

void Link::update_interest() {
  // Reading resumes when the backlog is down to a half.
  if (!wants_in_.load(std::memory_order_acquire) &&
      backlog_.load(std::memory_order_relaxed) <= config_.backlog_bytes / 2)
    wants_in_.store(true, std::memory_order_release);
  const MutexLock lock(interest_);
  const std::uint32_t wanted = (wants_in_.load(std::memory_order_acquire) ? EPOLLIN : 0U) |
                               (wants_out_.load(std::memory_order_acquire) ? EPOLLOUT : 0U);
  if (epoll_ < 0 || wanted == events_) return;
  epoll_event event{};
  event.events = wanted;
  event.data.ptr = this;
  if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_->descriptor(), &event) == 0) events_ = wanted;
}

}  // namespace tally::server
