#include "net/routed_transport.h"

namespace tally::net {

RoutedTransport::RoutedTransport(std::unique_ptr<Transport> shm, std::unique_ptr<Transport> network,
                                 std::vector<bool> inside)
    : shm_(std::move(shm)),
      network_(std::move(network)),
      inside_(std::move(inside)),
      watcher_([this] { watch(); }) {}

RoutedTransport::~RoutedTransport() { stop_watching(); }

bool RoutedTransport::progress(Receiver& receiver) {
  const bool inside = shm_->progress(receiver);
  return network_->progress(receiver) || inside;
}

void RoutedTransport::wait(Deadline by) {
  {
    MutexLock lock(mutex_);
    if (!watching_) changed_.notify_one();
    watching_ = true;
  }
  shm_->wait(by);
}

// Waits on the sockets and wakes the caller, which sleeps on memory, when one is ready. The sockets
// stay ready until progress() handles them, so the watcher waits again only at the next wait().
void RoutedTransport::watch() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!watching_ && !stopping_) changed_.wait(mutex_);
      if (stopping_) return;
    }
    network_->wait(Deadline::never());
    {
      MutexLock lock(mutex_);
      watching_ = false;
    }
    shm_->wake();
  }
}

void RoutedTransport::stop_watching() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  network_->wake();
  if (watcher_.joinable()) watcher_.join();
}

// wait() sleeps on memory only.
void RoutedTransport::wake() { shm_->wake(); }

void RoutedTransport::close() {
  stop_watching();
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
