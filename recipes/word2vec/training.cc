#include "recipes/word2vec/training.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/clock.h"

namespace tally::word2vec {
namespace {

constexpr Duration kConnectTime = std::chrono::minutes(2);
constexpr Duration kShowEvery = std::chrono::milliseconds(500);

// Every rank draws different numbers.
std::uint64_t seed_of(std::uint64_t seed, Rank rank) {
  return Rng(seed + 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(rank + 1)).next();
}

double mean_loss(const HostProgress& from, const HostProgress& to) {
  return to.pairs > from.pairs ? (to.loss - from.loss) / static_cast<double>(to.pairs - from.pairs)
                               : 0;
}

}  // namespace

Training::Training(Job& job, const Settings& settings, const Vocabulary& vocabulary,
                   std::span<const WordId> text, RowService* service)
    : job_(job),
      settings_(settings),
      negatives_(vocabulary.counts()),
      keep_(keep_probabilities(vocabulary.counts(), settings.sample)),
      source_(text, keep_, negatives_, {.window = settings.window, .negatives = settings.negatives},
              seed_of(settings.seed, job.rank())),
      row_count_(vocabulary.size()),
      service_(service) {
  if (service != nullptr) remote_rows_ = std::make_unique<RemoteRows>(*service, settings.dimension);
}

Result<std::unique_ptr<Training>> Training::make(Job& job, const Vocabulary& vocabulary,
                                                 std::span<const WordId> text,
                                                 const Settings& settings, RowService* service) {
  if (settings.rule.uses_servers() != (service != nullptr))
    return Error{.code = ErrorCode::kInvalid,
                 .message = service == nullptr ? "home=server needs servers: give --servers"
                                               : "servers go with home=server"};
  std::unique_ptr<Training> training(new Training(job, settings, vocabulary, text, service));
  TALLY_TRY(training->connect());
  return training;
}

Result<void> Training::connect() {
  const Deadline by = Deadline::after(kConnectTime);
  Communicator& world = job_.world();
  TALLY_TRY(tiers_, exchange::find_tiers(world, exchange::Replicas::kPerHost, by));
  TALLY_TRY(tables_, HostTables::make(world, tiers_,
                                      {.rows = service_ == nullptr ? row_count_ : 0,
                                       .dimension = settings_.dimension},
                                      settings_.seed, by));
  const auto own = static_cast<std::int64_t>(source_.words() * settings_.epochs);
  std::vector<std::int64_t> words(static_cast<std::size_t>(world.size()));
  TALLY_TRY(world.allgather(std::span<const std::int64_t>(&own, 1), std::span(words), {.by = by}));
  for (const std::int64_t count : words) world_total_ += static_cast<std::uint64_t>(count);
  for (const Rank rank : tiers_.neighbours)
    host_total_ += static_cast<std::uint64_t>(words[static_cast<std::size_t>(rank)]);
  if (tiers_.hosts == 1 || service_ != nullptr) return {};
  std::int64_t longest = own;
  TALLY_TRY(tiers_.sums->allreduce(std::span<std::int64_t>(&longest, 1), ReduceOp::kMax));
  average_.emplace(*tiers_.sums, *tables_, tiers_,
                   AveragingSchedule(settings_.rule, static_cast<std::uint64_t>(longest)),
                   static_cast<std::uint64_t>(own));
  return {};
}

Result<TrainingResult> Training::run(const TrainingHooks& hooks) {
  TALLY_TRY(job_.world().barrier());
  begin_ = shown_ = SteadyClock().now();
  TALLY_TRY(train_all(hooks));

  TrainingResult result;
  // Number of interrupted workers, words.
  const bool early = done_ < source_.words() * settings_.epochs;
  std::array<std::int64_t, 2> facts = {early ? 1 : 0, static_cast<std::int64_t>(done_)};
  TALLY_TRY(job_.world().allreduce(std::span<std::int64_t>(facts)));
  result.interrupted = facts[0] > 0;
  result.words = static_cast<std::uint64_t>(facts[1]);
  result.elapsed = SteadyClock().now() - begin_;
  result.loss = mean_loss(late_progress_, tables_->progress());
  result.rounds = average_ ? average_->rounds() : 0;
  return result;
}

Result<void> Training::train_all(const TrainingHooks& hooks) {
  bool stops = false;
  for (std::uint64_t epoch = 0; epoch < settings_.epochs && !stops; ++epoch)
    while (!stops && source_.next(chunk_)) {
      TALLY_TRY(stops, train_chunk(hooks));
    }
  // A worker without text takes part in the averages all the same.
  if (average_ && !stops) TALLY_TRY(average_->advance(done_, false));
  return service_ != nullptr ? service_->finish() : Result<void>();
}

Result<void> Training::collect() {
  constexpr std::size_t kAtOnce = 4096;
  if (service_ == nullptr) return {};
  collected_.resize(row_count_ * settings_.dimension);
  for (std::size_t begin = 0; begin < row_count_; begin += kAtOnce) {
    std::vector<std::uint64_t> keys;
    for (std::size_t row = begin; row < std::min(begin + kAtOnce, row_count_); ++row)
      keys.push_back(row);
    TALLY_TRY(service_->pull(
        RowService::Table::kInputs, keys,
        std::span(collected_)
            .subspan(begin * settings_.dimension, keys.size() * settings_.dimension)));
  }
  return {};
}

// True if the training ends.
Result<bool> Training::train_chunk(const TrainingHooks& hooks) {
  Rows& rows = service_ != nullptr ? static_cast<Rows&>(*remote_rows_) : *tables_;
  TALLY_TRY(const RowTables tables, rows.fetch(chunk_));
  const float rate = rate_at(settings_.rate, tables_->progress().words, host_total_);
  const ChunkLoss loss = sgns_.train(chunk_, tables, rate);
  TALLY_TRY(rows.commit());

  done_ += chunk_.words;
  WorkerProgress& own = tables_->own_progress();
  own.words.store(done_, std::memory_order_relaxed);
  own.loss.store(own.loss.load(std::memory_order_relaxed) + loss.sum, std::memory_order_relaxed);
  own.pairs.store(own.pairs.load(std::memory_order_relaxed) + loss.pairs,
                  std::memory_order_relaxed);
  job_.count_step(chunk_.words);
  show(hooks, rate);
  if (hooks.interrupted()) tables_->ask_to_stop();
  const bool asked = tables_->is_asked_to_stop();
  if (average_) return average_->advance(done_, asked);
  return asked;
}

void Training::show(const TrainingHooks& hooks, float rate) {
  const TimePoint now = SteadyClock().now();
  const HostProgress progress = tables_->progress();
  if (10 * progress.words < 9 * host_total_) late_progress_ = progress;
  if (now - shown_ < kShowEvery) return;
  const double scale =
      host_total_ > 0 ? static_cast<double>(world_total_) / static_cast<double>(host_total_) : 1;
  const double seconds = std::chrono::duration<double>(now - shown_).count();
  const auto words = static_cast<double>(progress.words - shown_progress_.words);
  hooks.show({.words = static_cast<std::uint64_t>(scale * static_cast<double>(progress.words)),
              .total = world_total_,
              .words_per_s = scale * words / seconds,
              .loss = mean_loss(shown_progress_, progress),
              .rate = rate,
              .elapsed = now - begin_});
  shown_ = now;
  shown_progress_ = progress;
}

}  // namespace tally::word2vec
