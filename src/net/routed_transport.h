#pragma once
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/shm_transport.h"
#include "net/tcp_transport.h"
#include "net/transport.h"

namespace tally::net {

// One transport of two: shared memory to the ranks of this host, a network to all others. No system
// call waits for memory and sockets at once: while a caller sleeps on memory, a thread waits on the
// sockets.
class RoutedTransport final : public Transport {
 public:
  // `inside[r]`: rank r is reached through `shm`.
  RoutedTransport(std::unique_ptr<Transport> shm, std::unique_ptr<Transport> network,
                  std::vector<bool> inside);
  ~RoutedTransport() override;

  Rank rank() const override { return shm_->rank(); }
  int size() const override { return static_cast<int>(inside_.size()); }
  void post(Rank to, Outgoing& message) override { way_to(to).post(to, message); }
  void withdraw(Rank to, Outgoing& message) override { way_to(to).withdraw(to, message); }
  bool progress(Receiver& receiver) override;
  void prepare_wait() override {
    shm_->prepare_wait();
    network_->prepare_wait();
  }
  void cancel_wait() override {
    network_->cancel_wait();
    shm_->cancel_wait();
  }
  void wait(Deadline by) override;
  void wake() override;
  void close() override;
  const Counters& counters() const override;

 private:
  void watch();
  void stop_watching();
  Transport& way_to(Rank rank) const {
    return inside_[static_cast<std::size_t>(rank)] ? *shm_ : *network_;
  }

  const std::unique_ptr<Transport> shm_;
  const std::unique_ptr<Transport> network_;
  const std::vector<bool> inside_;
  mutable Counters sum_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool watching_ TALLY_GUARDED_BY(mutex_) =
      false;  // the watcher waits on the sockets, or is about to
  bool stopping_ TALLY_GUARDED_BY(mutex_) = false;
  std::jthread watcher_;
};

}  // namespace tally::net
