#pragma once
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define TALLY_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TALLY_THREAD_ATTRIBUTE(x)
#endif
#define TALLY_CAPABILITY(x) TALLY_THREAD_ATTRIBUTE(capability(x))
#define TALLY_SCOPED_CAPABILITY TALLY_THREAD_ATTRIBUTE(scoped_lockable)
#define TALLY_GUARDED_BY(x) TALLY_THREAD_ATTRIBUTE(guarded_by(x))
#define TALLY_TRY_ACQUIRE(...) TALLY_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define TALLY_ACQUIRE_SHARED(...) TALLY_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define TALLY_RELEASE_SHARED(...) TALLY_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define TALLY_RELEASE_GENERIC(...) TALLY_THREAD_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
#define TALLY_REQUIRES(...) TALLY_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TALLY_ACQUIRE(...) TALLY_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TALLY_RELEASE(...) TALLY_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TALLY_NO_THREAD_SAFETY_ANALYSIS TALLY_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace tally {

// std::mutex that clang's thread-safety analysis understands.
class TALLY_CAPABILITY("mutex") Mutex {
 public:
  void lock() TALLY_ACQUIRE() { mutex_.lock(); }
  bool try_lock() TALLY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
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

// std::shared_mutex that clang's thread-safety analysis understands.
class TALLY_CAPABILITY("shared mutex") SharedMutex {
 public:
  void lock() TALLY_ACQUIRE() { mutex_.lock(); }
  bool try_lock() TALLY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() TALLY_RELEASE() { mutex_.unlock(); }
  void lock_shared() TALLY_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() TALLY_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds a SharedMutex alone.
class TALLY_SCOPED_CAPABILITY ExclusiveLock {
 public:
  explicit ExclusiveLock(SharedMutex& mutex) TALLY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~ExclusiveLock() TALLY_RELEASE() { mutex_.unlock(); }
  ExclusiveLock(const ExclusiveLock&) = delete;
  ExclusiveLock& operator=(const ExclusiveLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Holds a SharedMutex together with other readers.
class TALLY_SCOPED_CAPABILITY SharedLock {
 public:
  explicit SharedLock(SharedMutex& mutex) TALLY_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~SharedLock() TALLY_RELEASE_GENERIC() { mutex_.unlock_shared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Waits on a Mutex that the caller holds.
using ConditionVariable = std::condition_variable_any;

}  // namespace tally
