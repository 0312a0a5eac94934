#include "net/frame_sender.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::net {

void FrameSender::queue(Outgoing& message) {
  message.begin();
  queue_.push_back(&message);
}

FrameSender::Pumped FrameSender::pump(Stream& stream, std::size_t budget_bytes) {
  Pumped pumped = write_queue(stream, budget_bytes);
  pumped.finished = settle(stream);
  if (pumped.end == Io::State::kClosed || pumped.end == Io::State::kFailed) {
    fail(end_of(stream, {pumped.end}));
    pumped.finished = true;
  }
  return pumped;
}

FrameSender::Pumped FrameSender::write_queue(Stream& stream, std::size_t budget_bytes) {
  Pumped pumped;
  std::size_t moved_bytes = 0;
  while (!queue_.empty() && moved_bytes < budget_bytes) {
    Outgoing& message = *queue_.front();
    if (!open_) cut(message);
    const std::size_t frame_bytes = header_.size() + payload_.size();
    const Io io = write_frame(stream);
    if (io.state != Io::State::kMoved) {
      pumped.end = io.state;
      return pumped;
    }
    pumped.moved = true;
    moved_bytes += io.bytes;
    written_bytes_ += io.bytes;
    if (written_bytes_ < frame_bytes) {
      pumped.end = Io::State::kBlocked;
      return pumped;
    }
    finish_frame(message);
  }
  if (stream.wants_write()) pumped.end = stream.flush().state;
  return pumped;
}

// Whether messages count as sent that did not before.
bool FrameSender::settle(const Stream& stream) {
  if (taken_.empty() || stream.wants_write()) return false;
  for (Outgoing* message : taken_) message->finish();
  taken_.clear();
  return true;
}

void FrameSender::fail(Error why) {
  failure_ = std::move(why);
  failure_.peer = config_.peer;
  abandon();
  failed_.store(true, std::memory_order_release);
}

// The number is used up only when the frame is complete: a frame withdrawn before its first byte
// leaves no gap.
void FrameSender::cut(Outgoing& message) {
  const std::size_t offset = message.queued_bytes_;
  payload_ = message.payload.subspan(
      offset, std::min(wire::kMaxPayloadBytes, message.payload.size() - offset));
  wire::FrameHeader& header = message.header;
  header.generation = config_.generation;
  header.number = next_number_;
  header.message_bytes = message.payload.size();
  header.offset_bytes = offset;
  header.payload_bytes = static_cast<std::uint32_t>(payload_.size());
  header.payload_checksum = config_.checksummed ? kernel::crc32c(payload_) : 0;
  header_ = wire::encode(header);
  written_bytes_ = 0;
  open_ = true;
}

Io FrameSender::write_frame(Stream& stream) {
  // iovec has no const; the stream only reads.
  const auto part = [](std::span<const std::byte> bytes) {
    return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()};
  };
  if (written_bytes_ >= header_.size()) {
    const iovec rest = part(payload_.subspan(written_bytes_ - header_.size()));
    return stream.write({&rest, 1});
  }
  const std::array parts = {part(std::span(header_).subspan(written_bytes_)), part(payload_)};
  return stream.write(std::span(parts).first(payload_.empty() ? 1 : 2));
}

void FrameSender::finish_frame(Outgoing& message) {
  counters_.frames_sent.fetch_add(1, std::memory_order_relaxed);
  counters_.payload_bytes_sent.fetch_add(payload_.size(), std::memory_order_relaxed);
  ++next_number_;
  open_ = false;
  message.queued_bytes_ += payload_.size();
  if (message.queued_bytes_ < message.payload.size()) return;
  queue_.pop_front();
  if (&message != &orphan_) taken_.push_back(&message);
}

void FrameSender::withdraw(Outgoing& message) {
  std::erase(taken_, &message);
  const auto found = std::find(queue_.begin(), queue_.end(), &message);
  if (found == queue_.end()) return;
  if (found != queue_.begin() || !open_ || written_bytes_ == 0) {
    if (found == queue_.begin()) open_ = false;
    queue_.erase(found);
    return;
  }
  orphan_bytes_.assign(payload_.begin(), payload_.end());
  payload_ = orphan_bytes_;
  orphan_.begin();
  orphan_.header = {};
  orphan_.payload = payload_;
  queue_.front() = &orphan_;
}

void FrameSender::abandon() {
  for (Outgoing* message : queue_) message->finish();
  for (Outgoing* message : taken_) message->finish();
  queue_.clear();
  taken_.clear();
  open_ = false;
}

}  // namespace tally::net
