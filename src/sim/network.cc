#include "sim/network.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/errors.h"

namespace tally::sim {
namespace {

Duration transfer_time(std::size_t bytes, double bytes_per_second) {
  return Duration(std::llround(static_cast<double>(bytes) / bytes_per_second * 1e9));
}

// The arrival, delayed past every cut that overlaps [departure, arrival].
TimePoint after_cuts(const std::vector<Cut>& cuts, TimePoint departure, TimePoint arrival,
                     Duration latency) {
  for (bool held = true; held;) {
    held = false;
    for (const Cut& cut : cuts) {
      if (arrival < cut.from || departure >= cut.until) continue;
      if (cut.until == TimePoint::max()) return TimePoint::max();
      departure = cut.until;
      arrival = std::max(arrival, cut.until + latency);
      held = true;
    }
  }
  return arrival;
}

}  // namespace

Network::Network(int ranks, std::uint64_t seed, const Conditions& conditions)
    : ranks_(ranks),
      conditions_(conditions),
      turns_(ranks, seed),
      arrived_(new std::atomic<std::uint32_t>[static_cast<std::size_t>(ranks * ranks)]()) {
  const MutexLock lock(turns_.mutex);
  const auto n = static_cast<std::size_t>(ranks);
  ways_.resize(n * n);
  processes_.resize(n);
  Rng seeds(seed);
  for (OneWay& way : ways_) way.jitter = Rng(seeds.next());
  turns_.on_stall([this](Rank rank) TALLY_REQUIRES(turns_.mutex) {
    end_process(rank, "nothing can happen any more in this simulation");
  });
}

Network::OneWay& Network::way(Rank from, Rank to) {
  TALLY_CHECK(0 <= from && from < ranks_ && 0 <= to && to < ranks_ && from != to);
  return ways_[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
               static_cast<std::size_t>(to)];
}

Network::Process& Network::process(Rank rank) {
  TALLY_CHECK(0 <= rank && rank < ranks_);
  return processes_[static_cast<std::size_t>(rank)];
}

void Network::kill(const Kill& fault) {
  const MutexLock lock(turns_.mutex);
  if (fault.before_frame) process(fault.rank).dies_before_frame = fault.before_frame;
  if (fault.at) {
    turns_.at(*fault.at, [this, rank = fault.rank]() TALLY_REQUIRES(turns_.mutex) {
      end_process(rank, "killed by the script");
    });
  }
}

void Network::cut(const Cut& fault) {
  const MutexLock lock(turns_.mutex);
  way(fault.one, fault.other).cuts.push_back(fault);
  way(fault.other, fault.one).cuts.push_back(fault);
}

void Network::stop(const Stop& fault) {
  const MutexLock lock(turns_.mutex);
  turns_.stop(fault.rank, fault.from, fault.until);
}

void Network::corrupt(const Corrupt& fault) {
  const MutexLock lock(turns_.mutex);
  way(fault.from, fault.to).damaged.insert(fault.frame);
}

void Network::delay(const Delay& fault) {
  const MutexLock lock(turns_.mutex);
  way(fault.from, fault.to).delays.push_back(fault);
}

bool Network::has_room(Rank from, Rank to, std::size_t bytes) {
  const MutexLock lock(turns_.mutex);
  const OneWay& link = way(from, to);
  return link.closed || link.window_used == 0 ||
         link.window_used + bytes <= conditions_.window_bytes;
}

bool Network::send(Rank from, Rank to, Frame frame) {
  const MutexLock lock(turns_.mutex);
  Process& sender = process(from);
  if (sender.dies_before_frame && sender.frames_sent >= *sender.dies_before_frame) {
    end_process(from, "killed by the script");
  }
  if (sender.death) return false;
  ++sender.frames_sent;
  OneWay& link = way(from, to);
  frame.header.number = link.frames_sent++;
  if (link.closed) return true;
  frame.damaged = link.damaged.count(frame.header.number) > 0;

  // A frame leaves after the previous one; its latency overlaps with the next frame.
  const TimePoint departure = std::max(turns_.now(), link.free_at);
  const std::size_t bytes = frame.header.payload_bytes;
  link.free_at =
      departure + transfer_time(bytes + wire::kHeaderBytes, conditions_.link.bytes_per_second);
  link.window_used += bytes;
  TimePoint arrival = link.free_at + conditions_.link.latency;
  if (conditions_.jitter > Duration::zero()) {
    const auto bound = static_cast<std::uint64_t>(conditions_.jitter.count()) + 1;
    arrival += Duration(static_cast<Duration::rep>(link.jitter.below(bound)));
  }
  for (const Delay& delay : link.delays) {
    if (delay.since <= departure && departure < delay.until) arrival += delay.extra;
  }
  launch(from, to, std::move(frame),
         after_cuts(link.cuts, departure, arrival, conditions_.link.latency));
  return true;
}

// Frames of a link arrive in the order in which they were sent.
void Network::launch(Rank from, Rank to, Frame frame, TimePoint arrival) {
  OneWay& link = way(from, to);
  link.last_arrival = std::max(link.last_arrival, arrival);
  link.travelling.push_back(std::move(frame));
  turns_.at(link.last_arrival, [this, from, to]() TALLY_REQUIRES(turns_.mutex) {
    OneWay& same = way(from, to);
    same.arrived.push_back(std::move(same.travelling.front()));
    same.travelling.pop_front();
    ++arrived(to, from);
    notify(to);
  });
}

std::optional<Frame> Network::take(Rank at, Rank from) {
  const MutexLock lock(turns_.mutex);
  OneWay& link = way(from, at);
  if (link.arrived.empty()) return std::nullopt;
  Frame frame = std::move(link.arrived.front());
  link.arrived.pop_front();
  --arrived(at, from);
  digest_in(static_cast<std::uint64_t>(turns_.now().count()));
  digest_in(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(at));
  digest_in(frame.header.number);
  digest_in(frame.header.payload_bytes);
  return frame;
}

void Network::give_back(Rank at, Rank from, std::size_t bytes) {
  const MutexLock lock(turns_.mutex);
  OneWay& link = way(from, at);
  TALLY_CHECK(link.window_used >= bytes);
  link.window_used -= bytes;
  notify(from);
}

void Network::hang_up(Rank at, Rank peer) {
  const MutexLock lock(turns_.mutex);
  way(peer, at).closed = true;
  lose(at, peer, "ended the connection", conditions_.link.latency);
}

void Network::depart(Rank rank) {
  const MutexLock lock(turns_.mutex);
  for (Rank peer = 0; peer < ranks_; ++peer) {
    if (peer == rank) continue;
    way(peer, rank).closed = true;
    notify(peer);
  }
}

void Network::die(Rank rank, std::string_view why) {
  const MutexLock lock(turns_.mutex);
  end_process(rank, why);
}

void Network::end_process(Rank rank, std::string_view why) {
  Process& ended = process(rank);
  if (ended.death) return;
  ended.death = make_error(ErrorCode::kClosed, rank, "rank {} has ended: {}", rank, why);
  for (Rank peer = 0; peer < ranks_; ++peer) {
    if (peer != rank) lose(rank, peer, why, conditions_.detection_delay);
  }
  // The thread of the rank must run once more in order to end.
  turns_.release(rank);
  notify(rank);
}

void Network::lose(Rank from, Rank to, std::string_view why, Duration after) {
  Frame frame;
  frame.loss = make_error(ErrorCode::kPeerLost, from, "rank {} is lost: {}", from, why);
  const TimePoint departure = turns_.now();
  launch(from, to, std::move(frame),
         after_cuts(way(from, to).cuts, departure, departure + after, conditions_.link.latency));
}

std::optional<Error> Network::death(Rank rank) {
  const MutexLock lock(turns_.mutex);
  return process(rank).death;
}

void Network::look(Rank rank) {
  const MutexLock lock(turns_.mutex);
  process(rank).news = false;
}

void Network::wait(Rank rank, Deadline by) {
  const MutexLock lock(turns_.mutex);
  if (process(rank).news || by.passed(turns_.now())) return;
  turns_.yield(rank, by);
}

void Network::pause(Rank rank, Deadline by) {
  const MutexLock lock(turns_.mutex);
  turns_.yield(rank, by);
}

void Network::wake(Rank rank) {
  const MutexLock lock(turns_.mutex);
  notify(rank);
}

void Network::notify(Rank rank) {
  process(rank).news = true;
  turns_.wake(rank);
}

std::uint64_t Network::digest() {
  const MutexLock lock(turns_.mutex);
  return digest_;
}

void Network::digest_in(std::uint64_t value) { digest_ = Rng(digest_ ^ value).next(); }

}  // namespace tally::sim
