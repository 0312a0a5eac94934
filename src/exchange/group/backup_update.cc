#include "exchange/group/backup_update.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"

// One version of the parameters, on all ranks:
//   1. exchange() stores offer_ and sends it to rank 0 through tell(). Rank 0 keeps one receive
//      open per peer (listen()), and heard() enters each offer into round_.
//   2. decide() on rank 0 stores a decision once round_ has enough offers. serve_once() broadcasts
//      it: the ranks that count, and the learning rates.
//   3. take_part() on every rank completes the update, with the gradient of offer_ if the rank
//      counts and without samples otherwise, and increments version_.
//   4. exchange() returns once version_ has changed.
namespace tally::exchange {
namespace {

// An offer is sent as numbers: the version, whether the rank has drained instead, the learning
// rates.
enum OfferWord : std::size_t { kVersion, kDrained, kOfferRates };
// A decision is sent as numbers: whether all ranks have drained, the learning rates, then for each
// rank whether it counts.
enum DecisionWord : std::size_t { kFinished, kDecisionRates };

}  // namespace

BackupUpdate::BackupUpdate(Communicator& world, GroupUpdate& update, const Options& options)
    : world_(world),
      update_(update),
      options_(options),
      groups_(update.groups()),
      incoming_(static_cast<std::size_t>(world.size())),
      round_(options.rules),
      rates_(static_cast<std::size_t>(world.size())),
      generation_(update.present()) {
  for (Rank rank = 0; rank < world.size(); ++rank)
    round_.join(static_cast<policy::Worker>(rank), rank);
}

Result<std::unique_ptr<BackupUpdate>> BackupUpdate::make(Communicator& world, GroupUpdate& update,
                                                         const Options& options, Deadline by) {
  std::unique_ptr<BackupUpdate> made(new BackupUpdate(world, update, options));
  TALLY_TRY(made->offers_, world.split(0, world.rank(), by));
  TALLY_TRY(made->decisions_, world.split(0, world.rank(), by));
  TALLY_TRY(update.make_state());
  if (world.rank() == 0)
    for (Rank peer = 1; peer < world.size(); ++peer) made->listen(peer);
  return made;
}

BackupUpdate::~BackupUpdate() {
  stop();
  {
    // Wait for callbacks that have received an offer and are about to listen for the next one.
    const MutexLock lock(mutex_);
    while (listening_ > 0) changed_.wait(mutex_);
  }
  // Destroy the communicators before the members that their callbacks use.
  offers_.reset();
  decisions_.reset();
}

void BackupUpdate::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (decisions_) decisions_->close();
  if (offers_) offers_->close();
}

// Rank 0: receives the offers of `peer`, one after the other.
void BackupUpdate::listen(Rank peer) {
  std::vector<double>& words = incoming_[static_cast<std::size_t>(peer)];
  words.resize(kOfferRates + groups_);
  offers_
      ->start({.operation = Operation::kReceive,
               .output = words.data(),
               .count = words.size(),
               .type = DataType::kFloat64,
               .root = peer,
               .by = Deadline::never()})
      .then([this, peer](const Result<void>& outcome) {
        if (!outcome) {
          // Ranks that wait for a decision may not have noticed a loss.
          if (fail(outcome.error())) decisions_->abort(outcome.error());
          return;
        }
        {
          const MutexLock lock(mutex_);
          heard(peer, incoming_[static_cast<std::size_t>(peer)]);
          if (stopping_) return;
          ++listening_;
        }
        changed_.notify_all();
        listen(peer);
        {
          const MutexLock lock(mutex_);
          --listening_;
          // Notify under the lock: once listening_ is 0 the destructor may finish.
          changed_.notify_all();
        }
      });
}

void BackupUpdate::heard(Rank from, const std::vector<double>& words) {
  const auto worker = static_cast<policy::Worker>(from);
  if (words[kDrained] != 0) {
    round_.leave(worker);
  } else {
    const auto version = static_cast<std::uint64_t>(words[kVersion]);
    rates_[static_cast<std::size_t>(from)].assign(words.begin() + kOfferRates, words.end());
    // A late offer is dropped; its rank sees that from the version.
    (void)round_.offer({.worker = worker, .clock = version + 1, .version = version});
  }
  decide();
}

// Rank 0: stores the next decision if it is due.
void BackupUpdate::decide() {
  if (decision_) return;
  std::vector<double> words(decision_words());
  if (round_.members().empty()) {
    words[kFinished] = 1;
    round_.set_version(round_.version() + 1);
    for (Rank rank = 0; rank < world_.size(); ++rank)
      round_.join(static_cast<policy::Worker>(rank), rank);
  } else {
    const policy::Round::Due due = round_.due();
    if (due.counted.empty()) return;
    const auto& rates = rates_[due.counted.front().worker];
    std::copy(rates.begin(), rates.end(), words.begin() + kDecisionRates);
    for (const policy::Offer& offer : due.counted)
      words[kDecisionRates + groups_ + offer.worker] = 1;
    round_.applied(due.counted);
  }
  decision_ = std::move(words);
}

// Sends `words` to rank 0, or handles them here on rank 0.
Result<void> BackupUpdate::tell(std::vector<double> words) {
  if (world_.rank() != 0) return offers_->send(std::span<const double>(words), 0);
  {
    const MutexLock lock(mutex_);
    heard(0, words);
  }
  changed_.notify_all();
  return {};
}

// Returns whether the other ranks must learn of the error: not that this rank has stopped.
bool BackupUpdate::fail(const Error& error) {
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = error;
  changed_.notify_all();
  return !stopping_;
}

std::size_t BackupUpdate::decision_words() const {
  return kDecisionRates + groups_ + static_cast<std::size_t>(world_.size());
}

// The decision of rank 0 about the current version; nullopt: there is none yet.
Result<std::optional<std::vector<double>>> BackupUpdate::decision() {
  if (world_.rank() == 0) {
    std::optional<std::vector<double>> words;
    {
      const MutexLock lock(mutex_);
      if (failure_) return *failure_;
      words = std::exchange(decision_, std::nullopt);
    }
    if (words) TALLY_TRY(decisions_->broadcast(std::span(*words), 0, {.by = Deadline::never()}));
    return words;
  }
  if (!arrival_) {
    arriving_.assign(decision_words(), 0);
    // The time of the next decision is unknown; the loss of a peer ends the wait.
    arrival_ = decisions_->start({.operation = Operation::kBroadcast,
                                  .input = arriving_.data(),
                                  .output = arriving_.data(),
                                  .count = arriving_.size(),
                                  .type = DataType::kFloat64,
                                  .root = 0,
                                  .by = Deadline::never()});
  }
  if (!arrival_->poll()) return std::optional<std::vector<double>>();
  TALLY_TRY(arrival_->wait());
  arrival_.reset();
  return std::optional(arriving_);
}

Result<bool> BackupUpdate::serve_once() {
  const auto words = decision();
  Result<void> outcome;
  if (words && *words) {
    outcome = take_part(**words);
    const MutexLock lock(mutex_);
    is_taking_part_ = false;
  }
  if (!words) outcome = words.error();
  if (!outcome) {
    if (fail(outcome.error())) {
      offers_->abort(outcome.error());
      decisions_->abort(outcome.error());
    }
    return outcome.error();
  }
  return words->has_value();
}

Result<void> BackupUpdate::serve() {
  for (;;) {
    TALLY_TRY(const bool served, serve_once());
    if (served) continue;
    if (arrival_) {
      // serve_once() takes the outcome.
      (void)arrival_->wait();
      continue;
    }
    const MutexLock lock(mutex_);
    while (!decision_ && !failure_ && !stopping_) changed_.wait(mutex_);
    if (stopping_) return make_error(ErrorCode::kClosed, "the exchange of gradients has ended");
  }
}

// Takes part in the update of the current version, with this rank's gradient if it counts.
Result<void> BackupUpdate::take_part(const std::vector<double>& words) {
  const auto rank = static_cast<std::size_t>(world_.rank());
  const bool finished = words[kFinished] != 0;
  const bool counted = words[kDecisionRates + groups_ + rank] != 0;
  Offer own;
  {
    const MutexLock lock(mutex_);
    if (failure_) return *failure_;
    if (counted && !(offer_ && offer_->version == version_))
      return make_error(ErrorCode::kCorrupt, 0, "rank 0 counts a gradient that was not offered");
    is_taking_part_ = true;
    if (counted) own = *offer_;
  }
  UpdateTotals totals;
  if (!finished) {
    const auto rates = words.begin() + kDecisionRates;
    update_.set_rates({rates, rates + static_cast<std::ptrdiff_t>(groups_)});
    for (const Offer::Ready& ready : own.ready)
      TALLY_TRY(update_.ready(ready.parameter, ready.elsewhere));
    TALLY_TRY(totals, update_.complete(own.contribution, std::span(&own.contribution.loss_sum, 1)));
  }
  {
    const MutexLock lock(mutex_);
    ++version_;
    generation_ = update_.present();
    if (finished) ++drains_;
    if (counted) counted_at_ = own.version;
    if (!finished) totals_ = std::move(totals);
    offer_.reset();
  }
  changed_.notify_all();
  return {};
}

std::uint64_t BackupUpdate::version() const {
  const MutexLock lock(mutex_);
  return version_;
}

BackupUpdate::Taken BackupUpdate::taken() const {
  return {.version = version_,
          .generation = generation_,
          .samples = totals_.samples,
          .loss_sum = totals_.sums.empty() ? 0 : totals_.sums[0],
          .updated = totals_.updated};
}

template <typename Done>
Result<BackupUpdate::Taken> BackupUpdate::wait_until(Deadline by, const Done& done) {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!done() && !failure_) {
        const Duration left = by.remaining(update_.now());
        // An update under way may read the offered gradients: it ends first. Afterwards no update
        // may read them, because the caller gets its memory back.
        if (left == Duration::zero() && !is_taking_part_)
          failure_ =
              make_error(ErrorCode::kTimeout, "too few gradients of other ranks arrived in time");
        if (failure_ || options_.pause) break;
        changed_.wait_for(mutex_, std::clamp<Duration>(left, std::chrono::milliseconds(1),
                                                       std::chrono::hours(1)));
      }
      if (done()) return taken();
      if (failure_) return *failure_;
    }
    TALLY_TRY(const bool served, serve_once());
    if (!served) options_.pause();
  }
}

Result<BackupUpdate::Taken> BackupUpdate::exchange(const Offer& offer, Deadline by) {
  TALLY_CHECK(offer.contribution.rates.size() == groups_);
  {
    const MutexLock lock(mutex_);
    if (version_ != offer.version) return taken();
    if (failure_) return *failure_;
    offer_ = offer;
  }
  std::vector<double> words = {static_cast<double>(offer.version), 0};
  words.insert(words.end(), offer.contribution.rates.begin(), offer.contribution.rates.end());
  TALLY_TRY(tell(std::move(words)));
  TALLY_TRY(Taken taken, wait_until(by, [this, &offer]() TALLY_REQUIRES(mutex_) {
              return version_ != offer.version;
            }));
  const MutexLock lock(mutex_);
  taken.counted = counted_at_ == offer.version;
  return taken;
}

Result<BackupUpdate::Taken> BackupUpdate::catch_up(std::uint64_t version, Deadline by) {
  return wait_until(by, [this, version]() TALLY_REQUIRES(mutex_) { return version_ >= version; });
}

Result<BackupUpdate::Taken> BackupUpdate::drain(Deadline by) {
  std::uint64_t drains = 0;
  {
    const MutexLock lock(mutex_);
    drains = drains_;
  }
  std::vector<double> words(kOfferRates + groups_);
  words[kDrained] = 1;
  TALLY_TRY(tell(std::move(words)));
  return wait_until(by, [this, drains]() TALLY_REQUIRES(mutex_) { return drains_ != drains; });
}

}  // namespace tally::exchange
