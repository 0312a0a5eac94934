#include "net/frame_sender.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::net {

void FrameSender::queue(Outgoing& message) {
  message.queued_bytes_ = 0;
  message.sent_ = false;
  queue_.push_back(&message);
}

FrameSender::Pumped FrameSender::pump(Stream& stream, std::size_t budget_bytes) {
  Pumped pumped;
  std::size_t moved_bytes = 0;
  while (!queue_.empty() && moved_bytes < budget_bytes) {
    Outgoing& message = *queue_.front();
    if (!open_) cut(message);
    const std::size_t frame_bytes = header_.size() + payload_.size();
    const Io io = write_frame(stream);
    if (io.state != Io::State::kMoved) {
      pumped.end = io.state;
      settle(stream);
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
  settle(stream);
  return pumped;
}

void FrameSender::settle(const Stream& stream) {
  if (stream.wants_write()) return;
  for (Outgoing* message : taken_) message->sent_ = true;
  taken_.clear();
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
  orphan_ = {};
  orphan_.payload = payload_;
  queue_.front() = &orphan_;
}

void FrameSender::abandon() {
  for (Outgoing* message : queue_) message->sent_ = true;
  for (Outgoing* message : taken_) message->sent_ = true;
  queue_.clear();
  taken_.clear();
  open_ = false;
}

}  // namespace tally::net
