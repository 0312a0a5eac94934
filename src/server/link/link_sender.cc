#include "server/link/link_sender.h"

#include <array>
#include <utility>

namespace tally::server {
namespace {

// The allocator reuses smaller ones itself.
constexpr std::size_t kLeastBytes = std::size_t{32} << 10;
constexpr std::size_t kMostKeptBytes = std::size_t{32} << 20;

constexpr std::size_t kMostParts = 64;

std::size_t size_of(const QueuedMessage& message) { return kHeaderBytes + message.payload.size(); }

// Memory of a queued message.
std::size_t cost_of(const QueuedMessage& message) {
  return sizeof(QueuedMessage) + message.owned.size();
}

iovec part(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // only read from
}

}  // namespace

std::vector<std::byte> PayloadPool::take(std::size_t bytes) {
  std::vector<std::byte> memory;
  if (bytes >= kLeastBytes) {
    const MutexLock lock(mutex_);
    // The newest first: it is likely to be in a cache.
    for (auto at = kept_.rbegin(); at != kept_.rend(); ++at) {
      if (at->capacity() < bytes) continue;
      memory = std::move(*at);
      kept_bytes_ -= memory.capacity();
      kept_.erase(std::next(at).base());
      break;
    }
  }
  memory.resize(bytes);
  return memory;
}

void PayloadPool::give(std::vector<std::byte> memory) {
  if (memory.capacity() < kLeastBytes) return;
  const MutexLock lock(mutex_);
  if (kept_bytes_ + memory.capacity() > kMostKeptBytes) return;
  kept_bytes_ += memory.capacity();
  kept_.push_back(std::move(memory));
}

void LinkSender::queue(QueuedMessage message) {
  owned_bytes_ += cost_of(message);
  queue_.push_back(std::move(message));
}

// Collects the next bytes. A descriptor goes with the first byte of its message, in a write that
// ends with that message.
std::size_t LinkSender::gather(std::span<iovec> parts) const {
  std::size_t count = 0;
  std::size_t skip = written_bytes_;
  for (const QueuedMessage& message : queue_) {
    if (count + 2 > parts.size() || (message.descriptor >= 0 && count > 0)) break;
    if (skip < kHeaderBytes) parts[count++] = part(std::span(message.header).subspan(skip));
    const std::size_t payload_skip = skip > kHeaderBytes ? skip - kHeaderBytes : 0;
    if (message.payload.size() > payload_skip)
      parts[count++] = part(message.payload.subspan(payload_skip));
    skip = 0;
    if (message.descriptor >= 0) break;
  }
  return count;
}

void LinkSender::advance(std::size_t bytes) {
  written_bytes_ += bytes;
  while (!queue_.empty() && written_bytes_ >= size_of(queue_.front())) {
    written_bytes_ -= size_of(queue_.front());
    owned_bytes_ -= cost_of(queue_.front());
    pool_.give(std::move(queue_.front().owned));
    queue_.pop_front();
  }
}

LinkSender::Pumped LinkSender::pump(net::Stream& socket, std::size_t budget_bytes) {
  Pumped pumped;
  std::array<iovec, kMostParts> parts;
  while (!queue_.empty() && pumped.bytes < budget_bytes) {
    const std::size_t count = gather(parts);
    const int descriptor = written_bytes_ == 0 ? queue_.front().descriptor : -1;
    const net::Io io = socket.write_with(std::span(parts).first(count), descriptor);
    pumped.end = io.state;
    if (io.state != net::Io::State::kMoved) return pumped;
    pumped.bytes += io.bytes;
    advance(io.bytes);
  }
  return pumped;
}

void LinkSender::clear() {
  queue_.clear();
  written_bytes_ = 0;
  owned_bytes_ = 0;
}

}  // namespace tally::server
