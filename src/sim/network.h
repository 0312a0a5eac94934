#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/rng.h"
#include "sim/model.h"
#include "sim/turns.h"
#include "wire/frame.h"

namespace tally::sim {

// The faults of a simulation, given before it starts.

// The rank's process ends at a moment, or when it has sent `before_frame` frames and is about to
// send one more; whichever comes first. Frames that it had sent still arrive; then its peers learn
// of the loss.
struct Kill {
  Rank rank = kNoRank;
  std::optional<std::uint64_t> before_frame = std::nullopt;
  std::optional<TimePoint> at = std::nullopt;
};

// No frame passes between two ranks, in either direction, from `from` on; frames under way arrive
// after `until`.
struct Cut {
  Rank one = kNoRank;
  Rank other = kNoRank;
  TimePoint from{};
  TimePoint until = TimePoint::max();
};

// The rank does nothing from `from` to `until`, as after SIGSTOP. Its peers do not learn of it.
struct Stop {
  Rank rank = kNoRank;
  TimePoint from{};
  TimePoint until = TimePoint::max();
};

// Frame number `frame` from one rank to another arrives damaged; its receiver then ends the
// connection.
struct Corrupt {
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::uint32_t frame = 0;
};

// Frames sent from one rank to another between `since` and `until` take `extra` longer.
struct Delay {
  Rank from = kNoRank;
  Rank to = kNoRank;
  Duration extra{};
  TimePoint since{};
  TimePoint until = TimePoint::max();
};

// The parameters of all links; each direction of a pair of ranks is a link of its own.
struct Conditions {
  Link link{.latency = std::chrono::microseconds(10), .bytes_per_second = 10e9};
  Duration jitter{};  // each frame takes up to this much longer; frames of a link stay in order
  Duration detection_delay = std::chrono::milliseconds(1);  // until a rank's end is noticed
  std::size_t window_bytes = std::size_t{1} << 20;          // sent and not yet taken, per link
  // Largest payload of a kData or kPoint frame; other messages are short and are not cut below the
  // wire's own limit.
  std::size_t frame_bytes = wire::kMaxPayloadBytes;
};

// A frame or a loss on a link.
struct Frame {
  wire::FrameHeader header;
  // Empty if the sender gave no memory: header.payload_bytes still takes its time.
  std::vector<std::byte> payload;
  bool damaged = false;
  std::optional<Error> loss = std::nullopt;  // instead of a frame: nothing more will come
};

// The links between the ranks of a simulation, in virtual time. Threads: safe.
class Network {
 public:
  Network(int ranks, std::uint64_t seed, const Conditions& conditions);

  // The script of faults; call before the ranks begin.
  void kill(const Kill& fault);
  void cut(const Cut& fault);
  void stop(const Stop& fault);
  void corrupt(const Corrupt& fault);
  void delay(const Delay& fault);

  int size() const { return ranks_; }
  const Clock& clock() const { return turns_.clock(); }
  const Conditions& conditions() const { return conditions_; }
  Turns& turns() { return turns_; }

  // Whether a frame of `bytes` may be sent now; one always may when nothing else is under way.
  bool has_room(Rank from, Rank to, std::size_t bytes);
  // Numbers the frame and sends it. False: `from` is dead, and nothing was sent.
  bool send(Rank from, Rank to, Frame frame);
  // Whether take() would return a frame.
  bool has_arrived(Rank at, Rank from) const { return arrived(at, from).load() > 0; }
  // The next frame that has arrived; its bytes count against the window until give_back().
  std::optional<Frame> take(Rank at, Rank from);
  void give_back(Rank at, Rank from, std::size_t bytes);

  // `at` ends its connection to `peer`, which sees a loss.
  void hang_up(Rank at, Rank peer);
  // `rank` receives no more, so that no sender waits for room on its links.
  void depart(Rank rank);
  // The process of `rank` ends: every peer sees a loss.
  void die(Rank rank, std::string_view why);
  std::optional<Error> death(Rank rank);

  // Call before looking at the state: wait() then returns at once if anything newer has happened.
  void look(Rank rank);
  void wait(Rank rank, Deadline by);
  // As wait(), but events do not end it early.
  void pause(Rank rank, Deadline by);
  void wake(Rank rank);

  // A digest of time and place of all frames taken so far: equal runs have equal digests.
  std::uint64_t digest();

 private:
  struct OneWay {
    Rng jitter{0};
    TimePoint free_at{};       // when the next frame may start
    TimePoint last_arrival{};  // of those sent
    std::uint32_t frames_sent = 0;
    std::size_t window_used = 0;
    std::deque<Frame> travelling;
    std::deque<Frame> arrived;
    bool closed = false;  // the receiver reads no more
    std::vector<Cut> cuts;
    std::vector<Delay> delays;
    std::set<std::uint32_t> damaged;
  };
  struct Process {
    std::uint64_t frames_sent = 0;
    std::optional<std::uint64_t> dies_before_frame;
    std::optional<Error> death;
    bool news = false;
  };

  OneWay& way(Rank from, Rank to) TALLY_REQUIRES(turns_.mutex);
  std::atomic<std::uint32_t>& arrived(Rank at, Rank from) const {
    return arrived_[static_cast<std::size_t>(at) * static_cast<std::size_t>(ranks_) +
                    static_cast<std::size_t>(from)];
  }
  Process& process(Rank rank) TALLY_REQUIRES(turns_.mutex);
  void launch(Rank from, Rank to, Frame frame, TimePoint arrival) TALLY_REQUIRES(turns_.mutex);
  void notify(Rank rank) TALLY_REQUIRES(turns_.mutex);
  void end_process(Rank rank, std::string_view why) TALLY_REQUIRES(turns_.mutex);
  void lose(Rank from, Rank to, std::string_view why, Duration after) TALLY_REQUIRES(turns_.mutex);
  void digest_in(std::uint64_t value) TALLY_REQUIRES(turns_.mutex);

  const int ranks_;
  const Conditions conditions_;
  Turns turns_;
  std::vector<OneWay> ways_ TALLY_GUARDED_BY(turns_.mutex);
  // The number of arrived frames of each link, by receiver: most links have none, and every turn of
  // a rank looks at all its links.
  const std::unique_ptr<std::atomic<std::uint32_t>[]> arrived_;
  std::vector<Process> processes_ TALLY_GUARDED_BY(turns_.mutex);
  std::uint64_t digest_ TALLY_GUARDED_BY(turns_.mutex) = 0;
};

}  // namespace tally::sim
