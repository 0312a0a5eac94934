#pragma once
#include <semaphore.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "tally/error.h"

namespace tally::sim {

// Time that passes only when a simulation says so, from 0. Threads: safe.
class VirtualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(now_.load(std::memory_order_acquire)); }

  void advance_to(TimePoint when) {
    TALLY_CHECK(when >= now());
    now_.store(when.count(), std::memory_order_release);
  }

 private:
  std::atomic<TimePoint::rep> now_{0};
};

// Virtual time and the order in which ranks run. Each rank has a thread, but only one rank runs at
// a time, until it yields; when all ranks wait, time jumps to the next event or to the next rank
// that is due. Where several are due at once the seed decides, so that a simulation repeats exactly
// from its seed.
//
// A rank that has not entered takes no turns: its waiting runs the events itself, for tests in
// which one thread plays all ranks.
class Turns {
 public:
  Turns(int ranks, std::uint64_t seed);

  // Guards this object and the simulation that is built on it. Events run with it held.
  Mutex mutex;

  const VirtualClock& clock() const { return clock_; }
  TimePoint now() const { return clock_.now(); }

  // Schedules `event` for `when`, which is not in the past; TimePoint::max() means never.
  void at(TimePoint when, std::function<void()> event) TALLY_REQUIRES(mutex);

  // The thread of `rank` enters and returns in its first turn; turns begin when all ranks have
  // entered. leave() ends the last turn.
  void enter(Rank rank) TALLY_REQUIRES(mutex);
  void leave(Rank rank) TALLY_REQUIRES(mutex);

  // Ends the turn; returns in the next turn, after wake() or `by`.
  void yield(Rank rank, Deadline by) TALLY_REQUIRES(mutex);
  void wake(Rank rank) TALLY_REQUIRES(mutex);

  // No turns for `rank` in [from, until). release() ends all its stops.
  void stop(Rank rank, TimePoint from, TimePoint until) TALLY_REQUIRES(mutex);
  void release(Rank rank) TALLY_REQUIRES(mutex);

  // Called for each rank that has not left when no event is left: the rank must end.
  void on_stall(std::function<void(Rank)> give_up) TALLY_REQUIRES(mutex);

 private:
  enum class Stage { kOutside, kWaiting, kRunning, kLeft };
  struct Stopped {
    TimePoint from;
    TimePoint until;
  };
  // std::binary_semaphore of g++ 12 spins before it waits, which takes time from the running rank.
  class Semaphore {
   public:
    Semaphore() { sem_init(&semaphore_, 0, 0); }
    ~Semaphore() { sem_destroy(&semaphore_); }
    Semaphore(const Semaphore&) = delete;
    Semaphore& operator=(const Semaphore&) = delete;
    void release() { sem_post(&semaphore_); }
    void acquire() {
      while (sem_wait(&semaphore_) != 0) {
      }
    }

   private:
    sem_t semaphore_;
  };
  struct Player {
    Stage stage = Stage::kOutside;
    TimePoint wake_at = TimePoint::max();
    std::vector<Stopped> stops;
    Semaphore turn;
  };
  struct Event {
    TimePoint when;
    std::uint64_t number;  // events of one moment happen in the order in which they were planned
    std::function<void()> happen;
    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  Player& player(Rank rank) TALLY_REQUIRES(mutex);
  TimePoint due(const Player& player) const TALLY_REQUIRES(mutex);
  TimePoint next_due() const TALLY_REQUIRES(mutex);
  TimePoint next_event() const TALLY_REQUIRES(mutex);
  void happen() TALLY_REQUIRES(mutex);
  void pass_turn() TALLY_REQUIRES(mutex);
  bool give_up_all() TALLY_REQUIRES(mutex);
  void give_turn_to_one_due() TALLY_REQUIRES(mutex);
  void await_turn(Player& player) TALLY_REQUIRES(mutex);

  VirtualClock clock_;
  Rng rng_ TALLY_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Player>> players_ TALLY_GUARDED_BY(mutex);
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_ TALLY_GUARDED_BY(mutex);
  Player* next_ TALLY_GUARDED_BY(mutex) = nullptr;  // has the turn; its thread is not yet awake
  std::uint64_t planned_ TALLY_GUARDED_BY(mutex) = 0;
  std::size_t entered_ TALLY_GUARDED_BY(mutex) = 0;
  std::function<void(Rank)> give_up_ TALLY_GUARDED_BY(mutex);
};

}  // namespace tally::sim
