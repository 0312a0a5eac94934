#pragma once
#include <poll.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/frame_sender.h"
#include "net/socket.h"
#include "net/stream.h"
#include "net/transport.h"
#include "tally/error.h"

namespace tally::net {

// The outgoing half of one connection.
struct Output {
  bool has_bytes() const {
    return stream != nullptr && !sender.failed() && (!sender.idle() || stream->wants_write());
  }

  Stream* stream = nullptr;  // nullptr: closed
  FrameSender sender;
  bool listed = false;  // among those that the SenderThread writes to
};

// Writes the messages of a TcpTransport in a thread of its own, while the caller of the transport
// receives and combines. The thread spins for a moment before it sleeps. Threads: post(),
// withdraw(), close() and stop() must not overlap each other. While the SenderThread runs, only
// FrameSender::failed() and failure() of an Output may be called directly. Streams must allow one
// thread to read while another writes.
class SenderThread final {
 public:
  struct Options {
    std::size_t budget_bytes = 0;  // about as much is written to one peer before the next
    // Called in the thread after messages count as sent, and in it or in post() after a connection
    // has failed.
    std::function<void()> notify;
  };
  static Result<std::unique_ptr<SenderThread>> start(Options options);
  ~SenderThread();

  // Never waits for the thread. A short message is written at once if nothing else is queued.
  void post(Output& output, Outgoing& message);
  // As FrameSender::withdraw().
  void withdraw(Output& output, Outgoing& message);
  // All messages of `output` count as sent, and the thread does not use it any more.
  void close(Output& output);
  // Ends the thread. Messages that it has not written are queued in their Outputs afterwards.
  void stop();

 private:
  struct Posted {
    Output* output;
    Outgoing* message;
  };
  class Claim;

  SenderThread(Options options, Descriptor event);

  bool write_now(Output& output, Outgoing& message);
  void wake();
  void join();
  void run();
  bool write_turn();
  bool take_posted() TALLY_REQUIRES(writing_);
  void list(Output& output) TALLY_REQUIRES(writing_);
  bool posted_soon() const;
  void sleep();

  const Options options_;
  const Descriptor event_;

  Mutex writing_;               // guards all Outputs; held while the thread writes
  std::atomic<int> claims_{0};  // callers that wait for `writing_`; the thread lets them go first
  std::vector<Output*> unsent_ TALLY_GUARDED_BY(writing_);  // Outputs that have bytes
  std::vector<Posted> taken_ TALLY_GUARDED_BY(writing_);    // kept for its memory

  Mutex inbox_mutex_;  // held for moments only; taken after `writing_`
  std::vector<Posted> inbox_ TALLY_GUARDED_BY(inbox_mutex_);

  // True: the inbox or `unsent_` has messages that the thread has not seen.
  std::atomic<bool> posted_{false};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stopping_{false};
  std::vector<pollfd> blocked_;  // the event, and sockets that are full; used by the thread only
  std::jthread thread_;
};

}  // namespace tally::net
