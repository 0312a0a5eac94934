#include "collective/handle.h"

namespace tally {

void Handle::State::complete(Result<void> outcome) {
  std::vector<std::function<void(const Result<void>&)>> next;
  {
    MutexLock lock(mutex_);
    outcome_ = outcome;
    next.swap(next_);
  }
  completed_.notify_all();
  for (const auto& call : next) call(outcome);
}

Result<void> Handle::State::wait() {
  if (driver_ != nullptr)
    while (!ended())
      if (!driver_->advance()) driver_->rest();
  MutexLock lock(mutex_);
  while (!outcome_) completed_.wait(mutex_);
  return *outcome_;
}

bool Handle::State::poll() {
  if (driver_ != nullptr && !ended()) driver_->advance();
  return ended();
}

bool Handle::State::ended() {
  MutexLock lock(mutex_);
  return outcome_.has_value();
}

void Handle::State::then(std::function<void(const Result<void>&)> next) {
  std::optional<Result<void>> outcome;
  {
    MutexLock lock(mutex_);
    if (!outcome_) {
      next_.push_back(std::move(next));
      return;
    }
    outcome = outcome_;
  }
  next(*outcome);
}

Handle ended_handle(Result<void> outcome) {
  auto state = std::make_shared<Handle::State>();
  state->complete(std::move(outcome));
  return Handle(std::move(state));
}

Result<void> Handle::wait() { return state_->wait(); }
bool Handle::poll() const { return state_->poll(); }
void Handle::then(std::function<void(const Result<void>&)> next) { state_->then(std::move(next)); }

}  // namespace tally
