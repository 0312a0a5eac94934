#include "net/routed_transport.h"

namespace tally::net {
namespace {

// No single call sleeps on memory and on sockets at once: naps on the memory side, and what the network
// brings is looked for between them.
constexpr Duration kNap = std::chrono::microseconds(500);

}  // namespace

RoutedTransport::RoutedTransport(std::unique_ptr<Transport> shm, std::unique_ptr<Transport> network,
                                 std::vector<bool> inside, const Clock& clock)
    : shm_(std::move(shm)),
      network_(std::move(network)),
      inside_(std::move(inside)),
      clock_(clock) {}

bool RoutedTransport::progress(Receiver& receiver) {
  const bool inside = shm_->progress(receiver);
  return network_->progress(receiver) || inside;
}

void RoutedTransport::wait(Deadline by) {
  shm_->wait(earlier(by, Deadline::at(clock_.now() + kNap)));
}

void RoutedTransport::wake() {
  shm_->wake();
  network_->wake();
}

void RoutedTransport::close() {
  network_->close();
  shm_->close();
}

const Counters& RoutedTransport::counters() const {
  const Counters& a = shm_->counters();
  const Counters& b = network_->counters();
  sum_.frames_sent = a.frames_sent + b.frames_sent;
  sum_.frames_received = a.frames_received + b.frames_received;
  sum_.payload_bytes_sent = a.payload_bytes_sent + b.payload_bytes_sent;
  sum_.payload_bytes_received = a.payload_bytes_received + b.payload_bytes_received;
  sum_.corrupt_frames = a.corrupt_frames + b.corrupt_frames;
  sum_.stale_frames = a.stale_frames + b.stale_frames;
  return sum_;
}

}  // namespace tally::net
