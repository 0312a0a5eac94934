#include "adapters/mpi/polling.h"

#include <algorithm>
#include <thread>

#include "base/cpu.h"

namespace tally::mpi {
namespace {

constexpr int kSpins = 2000;
constexpr Duration kShortest = std::chrono::microseconds(50);
constexpr Duration kLongest = std::chrono::milliseconds(1);
constexpr Duration kLeastPatience = std::chrono::milliseconds(20);
constexpr Duration kLeastPatienceWhereShared = std::chrono::microseconds(100);
constexpr std::size_t kSlowBytesPerMillisecond = 100'000;

}  // namespace

Rest rest_after(int looks, int spins, Duration waited, Duration patience) {
  if (looks < spins) return {.pause = Pause::kSpin};
  if (waited < patience) return {.pause = spins > 0 ? Pause::kSpin : Pause::kYield};
  return {.pause = Pause::kSleep, .sleep = std::clamp(waited / 1000, kShortest, kLongest)};
}

Duration patience_for(std::size_t bytes, int spins) {
  const Duration least = spins > 0 ? kLeastPatience : kLeastPatienceWhereShared;
  return least + std::chrono::milliseconds(bytes / kSlowBytesPerMillisecond);
}

int spins_for(int ranks, int cores) { return ranks <= cores ? kSpins : 0; }

void take(const Rest& rest) {
  switch (rest.pause) {
    case Pause::kSpin:
      spin_pause();
      break;
    case Pause::kYield:
      std::this_thread::yield();
      break;
    case Pause::kSleep:
      std::this_thread::sleep_for(rest.sleep);
      break;
  }
}

}  // namespace tally::mpi
