#pragma once
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TALLY_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TALLY_THREAD_ATTRIBUTE(x)
#endif
#define TALLY_CAPABILITY(x) TALLY_THREAD_ATTRIBUTE(capability(x))
#define TALLY_SCOPED_CAPABILITY TALLY_THREAD_ATTRIBUTE(scoped_lockable)
#define TALLY_GUARDED_BY(x) TALLY_THREAD_ATTRIBUTE(guarded_by(x))
#define TALLY_REQUIRES(...) TALLY_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TALLY_ACQUIRE(...) TALLY_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TALLY_RELEASE(...) TALLY_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TALLY_NO_THREAD_SAFETY_ANALYSIS TALLY_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace tally {

// std::mutex that clang's thread-safety analysis understands.
class TALLY_CAPABILITY("mutex") Mutex {
 public:
  void lock() TALLY_ACQUIRE() { mutex_.lock(); }
  void unlock() TALLY_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class TALLY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TALLY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() TALLY_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits on a Mutex that the caller holds.
using ConditionVariable = std::condition_variable_any;

}  // namespace tally
