#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "net/frame_receiver.h"
#include "net/sender_thread.h"
#include "net/socket.h"
#include "net/stream.h"
#include "net/transport.h"

namespace tally::net {

struct TcpOptions {
  // One progress() call sends about this much to a peer and receives about as much from it. No peer
  // starves the others, and what arrives is passed on while it is in the processor's cache.
  std::size_t budget_bytes = std::size_t{256} << 10;
  // A connection ends when sent bytes stay unacknowledged for this long (TCP_USER_TIMEOUT). A rank
  // that computes reads nothing, so the limit must be longer than any such pause. A host that
  // vanishes is noticed by this limit or by an operation's deadline.
  std::chrono::milliseconds unacknowledged_limit = std::chrono::minutes(15);
  // The time limit of close() for sending queued messages.
  std::chrono::milliseconds close_limit = std::chrono::seconds(1);
  // A second thread computes checksums or encrypts, and sends, while the caller of progress()
  // receives. Worth it only if the rank has a second core: see group/machine_share.h.
  bool sender_thread = false;
};

// Transport over one connected Stream per peer; docs/wire_format.md specifies the bytes. Threads:
// as Transport. A Receiver may call post() and withdraw() from inside its calls.
class TcpTransport final : public Transport {
 public:
  struct Config {
    Rank rank = 0;
    std::uint32_t generation = 0;
    TcpOptions options;
  };
  // `streams` by rank, handshakes done; nullptr for this rank and for peers of another transport,
  // to which no message may be posted here. Its length is the number of ranks. With a sender thread
  // one thread must be allowed to read from a stream while another writes to it.
  static Result<std::unique_ptr<TcpTransport>> make(const Config& config,
                                                    std::vector<std::unique_ptr<Stream>> streams);
  // Without close() the peers see a lost connection.
  ~TcpTransport() override;

  Rank rank() const override { return config_.rank; }
  int size() const override { return static_cast<int>(links_.size()); }
  void post(Rank to, Outgoing& message) override;
  void withdraw(Rank to, Outgoing& message) override;
  bool progress(Receiver& receiver) override;
  void prepare_wait() override { waiting_.store(true); }
  void cancel_wait() override { waiting_.store(false); }
  void wait(Deadline by) override;
  void wake() override;
  void close() override;
  const Counters& counters() const override { return counters_; }

 private:
  struct Link;
  enum class Touch { kWrite, kRead, kBoth };

  TcpTransport(const Config& config, Socket epoll, Socket event);

  Result<void> add_link(Rank peer, std::unique_ptr<Stream> stream);
  bool serve_ready(Receiver& receiver);
  bool serve(Link& link, Touch touch, Receiver& receiver);
  bool send(Link& link);
  bool receive(Link& link, Receiver& receiver);
  void finish(Link& link);
  void notify();
  void lose(Link& link, const Error& why, Receiver& receiver);
  void look_again(Link& link);
  void update_interest(Link& link);
  bool discard_input(Link& link);
  void say_goodbye();
  void linger();

  const Config config_;
  Counters counters_;
  const Socket epoll_;  // open for as long as the object lives: wait() may be inside
  const Socket event_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; nullptr where there never was a stream
  int live_count_ = 0;
  // Work is pending that no descriptor signals; wait() must not sleep.
  std::atomic<bool> look_again_{false};
  // The sender thread has finished messages, or a connection has failed, since the last progress().
  std::atomic<bool> notified_{false};
  std::atomic<bool> waiting_{false};  // the sender thread must end a wait(), or the next one
  std::unique_ptr<SenderThread> sender_thread_;  // optional, until close()
};

}  // namespace tally::net
