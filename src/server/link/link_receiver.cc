#include "server/link/link_receiver.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "kernel/crc32c/crc32c.h"

namespace tally::server {
namespace {

using net::Io;

// Buffer for headers and small payloads. At most this much of a large payload is copied.
constexpr std::size_t kBufferBytes = std::size_t{8} << 10;
// The memory of a larger payload is freed after its message.
constexpr std::size_t kKeptBytes = std::size_t{4} << 20;
constexpr std::size_t kReceiveAlignment = 4096;

}  // namespace

void LinkReceiver::Free::operator()(std::byte* memory) const { std::free(memory); }

LinkReceiver::LinkReceiver() : buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

void LinkReceiver::shut() {
  const MutexLock lock(gate_);
  shut_ = true;
}

LinkReceiver::Pumped LinkReceiver::pump(net::Stream& socket, Sink& sink, std::size_t budget_bytes) {
  Pumped pumped;
  const auto ends = [&pumped](End end) {
    pumped.end = end;
    return pumped;
  };
  satisfied_ = false;
  while (true) {
    const auto next = advance(socket, sink);
    if (!next.has_value()) {
      failure_ = next.error();
      return ends(End::kFailed);
    }
    if (*next == Next::kShut) return ends(End::kShut);
    if (*next == Next::kMessage) {
      ++pumped.messages;
      pumped.bytes += in_place_bytes_;
    }
    if (pumped.bytes >= budget_bytes || satisfied_) return ends(End::kMore);
    if (*next == Next::kMessage) continue;
    const Io io = read(socket);
    if (io.state != Io::State::kMoved) return ends(ended(io, socket));
    pumped.bytes += io.bytes;
  }
}

// Delivers one message if its bytes have arrived.
Result<LinkReceiver::Next> LinkReceiver::advance(net::Stream& socket, Sink& sink) {
  if (!message_) {
    if (buffered().size() < kHeaderBytes) return Next::kBytes;
    TALLY_TRY(open_message(socket, sink));
  }
  if (!fill_from_buffer()) return Next::kShut;
  if (filled_bytes_ < place_.size()) return Next::kBytes;
  TALLY_TRY(close_message(socket, sink));
  return Next::kMessage;
}

Result<void> LinkReceiver::open_message(net::Stream& socket, Sink& sink) {
  TALLY_TRY(const MessageHeader header, decode(buffered().first<kHeaderBytes>()));
  begin_ += kHeaderBytes;
  message_ = Message{.header = header, .payload = {}, .stays = false, .reply = {}};
  place_ = {};
  filled_bytes_ = 0;
  if (!socket.local() && (header.payload_place != 0 || header.reply_place != 0))
    return corrupt("a place in memory, over a connection that shares none");
  if (header.kind == MessageKind::kRegion) {
    if (!socket.local() || header.payload_bytes != 0) return corrupt("a region that cannot be");
    return regions_.add(socket.take_descriptor(), header.sequence);
  }
  return open_payload(sink);
}

// Finds the memory of the payload.
Result<void> LinkReceiver::open_payload(Sink& sink) {
  Message& message = *message_;
  MessageHeader& header = message.header;
  if (header.reply_place == kWritten) {
    if (header.kind != MessageKind::kAnswer || header.payload_bytes != 0)
      return corrupt("an answer that was written and comes along");
    header.payload_bytes = header.reply_bytes;
    const std::span<std::byte> written = sink.place(header);
    if (written.size() == header.payload_bytes) message.payload = written;
    return {};
  }
  if (header.reply_place != 0) {
    TALLY_TRY(message.reply, regions_.resolve(header.reply_place, header.reply_bytes));
  }
  if (header.payload_place != 0) {
    TALLY_TRY(message.payload, regions_.resolve(header.payload_place, header.payload_bytes));
    message.stays = true;
    return {};
  }
  if (header.payload_bytes == 0) return {};
  if (header.kind == MessageKind::kAnswer) place_ = sink.place(header);
  if (place_.size() != header.payload_bytes) place_ = own_memory(header.payload_bytes);
  message.payload = place_;
  return {};
}

std::span<std::byte> LinkReceiver::own_memory(std::size_t bytes) {
  if (own_bytes_ < bytes) {
    own_bytes_ = (bytes + kReceiveAlignment - 1) / kReceiveAlignment * kReceiveAlignment;
    own_.reset();
    own_.reset(static_cast<std::byte*>(std::aligned_alloc(kReceiveAlignment, own_bytes_)));
    TALLY_CHECK(own_ != nullptr);
  }
  return {own_.get(), bytes};
}

// False: shut.
bool LinkReceiver::fill_from_buffer() {
  const std::size_t count = std::min(buffered().size(), place_.size() - filled_bytes_);
  if (count == 0) return true;
  const MutexLock lock(gate_);
  if (shut_) return false;
  std::memcpy(place_.data() + filled_bytes_, buffered().data(), count);
  filled_bytes_ += count;
  begin_ += count;
  return true;
}

Result<void> LinkReceiver::close_message(net::Stream& socket, Sink& sink) {
  const Message message = *message_;
  const bool on_the_wire = !place_.empty();
  message_.reset();
  place_ = {};
  filled_bytes_ = 0;
  in_place_bytes_ = message.reply.size() + (message.stays ? message.payload.size() : 0);
  if (message.header.kind == MessageKind::kRegion) return {};
  if (on_the_wire && socket.checksummed() &&
      kernel::crc32c(message.payload) != message.header.payload_checksum)
    return corrupt("a payload fails its checksum");
  // A peer that has ended the link reuses its memory, perhaps while this process was stopped: its
  // message is not delivered.
  if ((message.stays || !message.reply.empty()) && socket.peer_ended()) return {};
  satisfied_ = !sink.deliver(message);
  if (own_bytes_ > kKeptBytes) {
    own_.reset();
    own_bytes_ = 0;
  }
  return {};
}

// Reads the rest of the payload and a little of what follows.
Io LinkReceiver::read(net::Stream& socket) {
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::size_t missing = place_.size() - filled_bytes_;
  const std::array<iovec, 2> parts = {
      iovec{place_.data() + filled_bytes_, missing},
      iovec{buffer_.get() + end_, kBufferBytes - end_},
  };
  const MutexLock lock(gate_);
  if (shut_) return {Io::State::kClosed};
  const Io io = socket.read(missing > 0 ? std::span(parts) : std::span(parts).subspan(1));
  if (io.state != Io::State::kMoved) return io;
  const std::size_t of_payload = std::min(missing, io.bytes);
  filled_bytes_ += of_payload;
  end_ += io.bytes - of_payload;
  return io;
}

LinkReceiver::End LinkReceiver::ended(const Io& io, const net::Stream& socket) {
  if (io.state == Io::State::kBlocked) return End::kDrained;
  {
    const MutexLock lock(gate_);
    if (shut_) return End::kShut;
  }
  failure_ = io.state == Io::State::kFailed ? socket.failure()
                                            : make_error(ErrorCode::kPeerLost, "connection closed");
  return End::kFailed;
}

}  // namespace tally::server
