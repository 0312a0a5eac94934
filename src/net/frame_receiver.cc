#include "net/frame_receiver.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::net {
namespace {

// A whole frame and the next header fit, so that a payload without a place of its own can be handed
// out from here.
constexpr std::size_t kBufferBytes = 2 * wire::kHeaderBytes + wire::kMaxPayloadBytes;
// The bytes read beyond the current frame: many small frames, one frame of 64 KiB with its header,
// or the start of a larger frame, which then costs a copy. After a larger frame, only the next
// header is read ahead, because large frames usually follow each other.
constexpr std::size_t kReadAheadBytes = (std::size_t{64} << 10) + 4096;

}  // namespace

FrameReceiver::FrameReceiver(const Config& config, Counters& counters)
    : config_(config),
      counters_(counters),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)),
      ahead_bytes_(kReadAheadBytes) {}

FrameReceiver::Pumped FrameReceiver::pump(Stream& stream, Receiver& receiver,
                                          std::size_t budget_bytes) {
  Pumped pumped;
  std::size_t read_bytes = 0;
  bool drained = false;
  while (true) {
    switch (advance(receiver)) {
      case Next::kFrame:
        pumped.moved = true;
        continue;
      case Next::kHeld:
        pumped.end = End::kHeld;
        return pumped;
      case Next::kGoodbye:
        pumped.moved = true;
        pumped.end = End::kGoodbye;
        return pumped;
      case Next::kFailed:
        pumped.moved = true;
        pumped.end = End::kFailed;
        return pumped;
      case Next::kBytes:
        break;
    }
    // A read that returned less than its buffer holds has drained the socket, so another would
    // block.
    if (drained) return pumped;
    if (read_bytes >= budget_bytes) {
      pumped.end = End::kMore;
      return pumped;
    }
    std::size_t wanted_bytes = 0;
    const Io io = read(stream, &wanted_bytes);
    if (io.state != Io::State::kMoved) {
      pumped.end = ended(io, stream);
      return pumped;
    }
    pumped.moved = true;
    read_bytes += io.bytes;
    drained = io.bytes < wanted_bytes;
  }
}

// Finishes one frame from the buffered bytes, or returns how many bytes are missing.
FrameReceiver::Next FrameReceiver::advance(Receiver& receiver) {
  if (held_) return offer(receiver);
  if (!frame_) {
    if (buffered_bytes() < wire::kHeaderBytes) return Next::kBytes;
    if (!open_frame(receiver)) return Next::kFailed;
  }
  if (!fill_payload()) return Next::kBytes;
  return close_frame(receiver);
}

bool FrameReceiver::open_frame(Receiver& receiver) {
  const std::span<const std::byte, wire::kHeaderBytes> bytes(buffer_.get() + begin_,
                                                             wire::kHeaderBytes);
  auto header = wire::decode(bytes);
  if (!header) return corrupt(std::move(header).error().message);
  if (header->number != next_number_) {
    return corrupt(fmt::format("frame number {} where {} was due", header->number, next_number_));
  }
  ++next_number_;
  begin_ += wire::kHeaderBytes;
  frame_ = *header;
  ahead_bytes_ = frame_->payload_bytes < kReadAheadBytes ? kReadAheadBytes : wire::kHeaderBytes;
  filled_bytes_ = 0;
  place_ = {};
  if (header->generation == config_.generation && header->payload_bytes > 0) {
    place_ = receiver.place(config_.peer, *header);
    TALLY_CHECK(place_.empty() || place_.size() == header->payload_bytes);
  }
  return true;
}

// Whether the payload is complete.
bool FrameReceiver::fill_payload() {
  if (!placed()) return buffered_bytes() >= frame_->payload_bytes;
  const std::size_t count = std::min(buffered_bytes(), place_.size() - filled_bytes_);
  std::memcpy(place_.data() + filled_bytes_, buffer_.get() + begin_, count);
  begin_ += count;
  filled_bytes_ += count;
  return filled_bytes_ == place_.size();
}

std::span<const std::byte> FrameReceiver::payload() const {
  if (placed()) return place_;
  return {buffer_.get() + begin_, frame_->payload_bytes};
}

FrameReceiver::Next FrameReceiver::close_frame(Receiver& receiver) {
  const std::uint32_t checksum = config_.checksummed ? kernel::crc32c(payload()) : 0;
  if (checksum != frame_->payload_checksum) {
    corrupt(fmt::format("payload of frame {} fails its checksum", frame_->number));
    return Next::kFailed;
  }
  if (frame_->generation != config_.generation) {
    counters_.stale_frames.fetch_add(1, std::memory_order_relaxed);
    begin_ += frame_->payload_bytes;
    frame_.reset();
    return Next::kFrame;
  }
  counters_.frames_received.fetch_add(1, std::memory_order_relaxed);
  counters_.payload_bytes_received.fetch_add(frame_->payload_bytes, std::memory_order_relaxed);
  return offer(receiver);
}

FrameReceiver::Next FrameReceiver::offer(Receiver& receiver) {
  held_ = receiver.deliver(config_.peer, *frame_, payload()) == Acceptance::kHold;
  if (held_) return Next::kHeld;
  if (!placed()) begin_ += frame_->payload_bytes;
  const bool goodbye = frame_->kind == wire::FrameKind::kGoodbye;
  frame_.reset();
  return goodbye ? Next::kGoodbye : Next::kFrame;
}

// Reads the rest of a placed payload to its place and, in the same call, the next header into the
// buffer. If another frame of the same message follows, the read stops after the header, because
// that payload will have a place as well.
Io FrameReceiver::read(Stream& stream, std::size_t* wanted_bytes) {
  std::array<iovec, 2> parts{};
  if (frame_ && placed()) {
    begin_ = end_ = 0;
    const bool last = frame_->offset_bytes + frame_->payload_bytes == frame_->message_bytes;
    parts[0] = {place_.data() + filled_bytes_, place_.size() - filled_bytes_};
    parts[1] = {buffer_.get(), last ? ahead_bytes_ : wire::kHeaderBytes};
  } else {
    const std::size_t payload_bytes = frame_ ? frame_->payload_bytes : 0;
    make_room(payload_bytes + ahead_bytes_);
    const std::size_t wanted =
        payload_bytes + ahead_bytes_ - std::min(payload_bytes, buffered_bytes());
    parts[1] = {buffer_.get() + end_, std::min(kBufferBytes - end_, wanted)};
  }
  const bool two = parts[0].iov_len > 0;
  *wanted_bytes = parts[0].iov_len + parts[1].iov_len;
  const Io io = stream.read(std::span(parts).subspan(two ? 0 : 1));
  if (io.state == Io::State::kMoved) {
    const std::size_t direct = std::min(io.bytes, parts[0].iov_len);
    filled_bytes_ += direct;
    end_ += io.bytes - direct;
  }
  return io;
}

// Makes room for `bytes` contiguous bytes from begin_ on, as far as the buffer has it.
void FrameReceiver::make_room(std::size_t bytes) {
  if (buffered_bytes() == 0) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && kBufferBytes - begin_ < bytes) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, buffered_bytes());
    end_ -= begin_;
    begin_ = 0;
  }
}

bool FrameReceiver::corrupt(std::string message) {
  counters_.corrupt_frames.fetch_add(1, std::memory_order_relaxed);
  failure_ =
      Error{.code = ErrorCode::kCorrupt, .peer = config_.peer, .message = std::move(message)};
  return false;
}

FrameReceiver::End FrameReceiver::ended(const Io& io, const Stream& stream) {
  if (io.state == Io::State::kBlocked) return End::kDrained;
  if (io.state == Io::State::kFailed) {
    failure_ = stream.failure();
    if (failure_.code == ErrorCode::kCorrupt) {
      counters_.corrupt_frames.fetch_add(1, std::memory_order_relaxed);
    }
  } else {
    const bool torn = frame_.has_value() || buffered_bytes() > 0;
    failure_ =
        Error{.code = ErrorCode::kPeerLost,
              .message = torn ? "connection closed in the middle of a frame" : "connection closed"};
  }
  failure_.peer = config_.peer;
  return End::kFailed;
}

}  // namespace tally::net
