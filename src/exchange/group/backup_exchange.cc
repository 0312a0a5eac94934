#include "exchange/group/backup_exchange.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"

// One version of the parameters, on all ranks:
//   1. exchange() stores offer_ and sends it to rank 0 through tell(). Rank 0 keeps one receive
//      open per peer (listen()), and heard() enters each offer into round_.
//   2. decide() on rank 0 waits until round_ has enough offers. decision() broadcasts the ranks
//      that count, and the learning rates.
//   3. take_part() on every rank's thread completes the update, with the gradient of offer_ if the
//      rank counts and without samples otherwise, and increments version_.
//   4. exchange() returns once version_ has changed.
namespace tally::exchange {
namespace {

// An offer is sent as numbers: the version, whether the rank has drained instead, the learning
// rates.
enum OfferWord : std::size_t { kVersion, kDrained, kOfferRates };
// A decision is sent as numbers: whether all ranks have drained, the lost rank + 1 or 0, the
// learning rates, then for each rank whether it counts.
enum DecisionWord : std::size_t { kFinished, kLost, kDecisionRates };

constexpr auto kCloseTime = std::chrono::seconds(5);

Error closed() { return make_error(ErrorCode::kClosed, "the exchange of gradients has ended"); }

}  // namespace

BackupExchange::BackupExchange(Communicator& world, GroupUpdate& update, int needed)
    : world_(world),
      update_(update),
      groups_(update.groups()),
      incoming_(static_cast<std::size_t>(world.size())),
      round_(world.size(), needed),
      rates_(static_cast<std::size_t>(world.size())) {}

Result<std::unique_ptr<BackupExchange>> BackupExchange::make(Communicator& world,
                                                             GroupUpdate& update, int needed,
                                                             Deadline by) {
  std::unique_ptr<BackupExchange> made(new BackupExchange(world, update, needed));
  TALLY_TRY(made->offers_, world.split(0, world.rank(), by));
  TALLY_TRY(made->decisions_, world.split(0, world.rank(), by));
  if (world.rank() == 0)
    for (Rank peer = 1; peer < world.size(); ++peer) made->listen(peer);
  made->thread_ = std::jthread([exchange = made.get()] { exchange->work(); });
  return made;
}

BackupExchange::~BackupExchange() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (decisions_) decisions_->close();
  if (offers_) offers_->close();
  thread_ = {};
  {
    // Wait for callbacks that have received an offer and are about to listen for the next one.
    const MutexLock lock(mutex_);
    while (listening_ > 0) changed_.wait(mutex_);
  }
  // Destroy the communicators before the members that their callbacks use.
  offers_.reset();
  decisions_.reset();
}

// Rank 0: receives the offers of `peer`, one after the other.
void BackupExchange::listen(Rank peer) {
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
        if (!outcome) return fail(outcome.error());
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

void BackupExchange::heard(Rank from, const std::vector<double>& words) {
  if (words[kDrained] != 0) return round_.drain(from);
  rates_[static_cast<std::size_t>(from)].assign(words.begin() + kOfferRates, words.end());
  round_.offer(from, static_cast<std::uint64_t>(words[kVersion]));
}

// Sends `words` to rank 0, or handles them here on rank 0.
Result<void> BackupExchange::tell(std::vector<double> words) {
  if (world_.rank() != 0) return offers_->send(std::span<const double>(words), 0);
  {
    const MutexLock lock(mutex_);
    heard(0, words);
  }
  changed_.notify_all();
  return {};
}

void BackupExchange::fail(const Error& error) {
  {
    const MutexLock lock(mutex_);
    if (!failure_) failure_ = error;
  }
  changed_.notify_all();
}

std::size_t BackupExchange::decision_words() const {
  return kDecisionRates + groups_ + static_cast<std::size_t>(world_.size());
}

void BackupExchange::work() {
  for (;;) {
    const auto words = decision();
    if (!words) return fail(words.error());
    if (const auto done = take_part(*words); !done) return fail(done.error());
  }
}

// Rank 0: waits until the gradients that count are known.
Result<std::vector<double>> BackupExchange::decide() {
  std::vector<double> words(decision_words());
  const MutexLock lock(mutex_);
  while (!round_.due() && !failure_ && !stopping_) changed_.wait(mutex_);
  if (stopping_) return closed();
  if (failure_) return *failure_;
  const std::vector<std::uint8_t> counts = *round_.due();
  words[kFinished] = round_.all_drained() ? 1 : 0;
  const auto first = std::find(counts.begin(), counts.end(), 1);
  if (first != counts.end()) {
    const auto& rates = rates_[static_cast<std::size_t>(first - counts.begin())];
    std::copy(rates.begin(), rates.end(), words.begin() + kDecisionRates);
  }
  std::copy(counts.begin(), counts.end(),
            words.begin() + static_cast<std::ptrdiff_t>(kDecisionRates + groups_));
  round_.next();
  return words;
}

// Waits for the decision of rank 0 about the current version.
Result<std::vector<double>> BackupExchange::decision() {
  std::vector<double> words(decision_words());
  if (world_.rank() == 0) {
    auto decided = decide();
    if (!decided) {
      // Tell the ranks that wait for a decision: they may not have noticed the loss.
      words[kLost] = decided.error().peer + 1;
      if (decided.error().peer != kNoRank)
        (void)decisions_->broadcast(std::span(words), 0, {.by = Deadline::after(kCloseTime)});
      return decided.error();
    }
    words = *std::move(decided);
  }
  // The time of the next decision is unknown; the loss of a peer ends the wait.
  TALLY_TRY(decisions_->broadcast(std::span(words), 0, {.by = Deadline::never()}));
  if (words[kLost] == 0) return words;
  const auto lost = static_cast<Rank>(words[kLost] - 1);
  return make_error(ErrorCode::kPeerLost, lost, "rank 0 lost this peer");
}

// Takes part in the update of the current version, with this rank's gradient if it counts.
Result<void> BackupExchange::take_part(const std::vector<double>& words) {
  const auto rank = static_cast<std::size_t>(world_.rank());
  const bool finished = words[kFinished] != 0;
  const bool counted = words[kDecisionRates + groups_ + rank] != 0;
  Offer own{.sums = std::vector<double>(1)};
  {
    const MutexLock lock(mutex_);
    TALLY_CHECK(!counted || (offer_ && offer_->version == version_));
    if (counted) own = *offer_;
  }
  UpdateTotals totals;
  if (!finished) {
    const auto rates = words.begin() + kDecisionRates;
    update_.set_rates({rates, rates + static_cast<std::ptrdiff_t>(groups_)});
    for (const std::size_t parameter : own.ready) TALLY_TRY(update_.ready(parameter));
    TALLY_TRY(totals, update_.complete(own.contribution, own.sums));
  }
  {
    const MutexLock lock(mutex_);
    ++version_;
    if (finished) ++drains_;
    if (counted) counted_at_ = own.version;
    if (!finished) totals_ = std::move(totals);
    offer_.reset();
  }
  changed_.notify_all();
  return {};
}

std::uint64_t BackupExchange::version() const {
  const MutexLock lock(mutex_);
  return version_;
}

template <typename Done>
Result<void> BackupExchange::wait_until(Deadline by, const Done& done) {
  while (!done()) {
    if (failure_) return *failure_;
    const Duration left = by.remaining(SteadyClock().now());
    if (left == Duration::zero())
      return make_error(ErrorCode::kTimeout, "too few gradients of other ranks arrived in time");
    changed_.wait_for(mutex_, std::min<Duration>(left, std::chrono::hours(1)));
  }
  return {};
}

Result<BackupExchange::Taken> BackupExchange::exchange(const Offer& offer, Deadline by) {
  TALLY_CHECK(offer.sums.size() == 1 && offer.rates.size() == groups_);
  {
    const MutexLock lock(mutex_);
    if (version_ != offer.version) return Taken{.version = version_, .totals = totals_};
    if (failure_) return *failure_;
    offer_ = offer;
  }
  std::vector<double> words = {static_cast<double>(offer.version), 0};
  words.insert(words.end(), offer.rates.begin(), offer.rates.end());
  TALLY_TRY(tell(std::move(words)));
  const MutexLock lock(mutex_);
  TALLY_TRY(wait_until(
      by, [this, &offer]() TALLY_REQUIRES(mutex_) { return version_ != offer.version; }));
  return Taken{.version = version_, .counted = counted_at_ == offer.version, .totals = totals_};
}

Result<void> BackupExchange::catch_up(std::uint64_t version, Deadline by) {
  const MutexLock lock(mutex_);
  return wait_until(by, [this, version]() TALLY_REQUIRES(mutex_) { return version_ >= version; });
}

Result<void> BackupExchange::drain(Deadline by) {
  std::uint64_t drains = 0;
  {
    const MutexLock lock(mutex_);
    drains = drains_;
  }
  std::vector<double> words(kOfferRates + groups_);
  words[kDrained] = 1;
  TALLY_TRY(tell(std::move(words)));
  const MutexLock lock(mutex_);
  return wait_until(by, [this, drains]() TALLY_REQUIRES(mutex_) { return drains_ != drains; });
}

}  // namespace tally::exchange
