#include "bench/server/worker.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/common/statistics.h"

namespace tally::bench::servers {

namespace {

using namespace std::chrono_literals;
using server::Client;
using server::PushOptions;
using server::TableId;
using server::TableSpec;
using server::Ticket;

// Requests in flight, so that the next one travels while the last is answered.
constexpr std::size_t kWindow = 2;
constexpr int kSets = 8;  // sets of keys, drawn beforehand
constexpr int kLatencies = 2000;

Deadline soon() { return Deadline::after(60s); }
double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

void tell(const std::string& name, double value) {
  fmt::print("figure {}={}\n", name, value);
  std::fflush(stdout);
}

Error mismatch(std::string message) {
  return {.code = ErrorCode::kMismatch, .message = std::move(message)};
}

// Distinct keys, in random order.
std::vector<std::uint64_t> draw_keys(Rng& rng) {
  std::unordered_set<std::uint64_t> seen;
  std::vector<std::uint64_t> keys;
  keys.reserve(kKeysOfARound);
  while (keys.size() < kKeysOfARound) {
    const std::uint64_t key = rng.below(kAllKeys);
    if (seen.insert(key).second) keys.push_back(key);
  }
  return keys;
}

template <typename T>
Result<std::span<T>> shared(Client& client, std::size_t count) {
  TALLY_TRY(const std::span<std::byte> bytes, client.allocate(count * sizeof(T)));
  return std::span(reinterpret_cast<T*>(bytes.data()), count);
}

class Worker final {
 public:
  Worker(Client& client, const WorkerOptions& options) : client_(client), options_(options) {}

  Result<void> run() {
    TALLY_TRY(measure_dense());
    for (const int dimension : {1, 64}) TALLY_TRY(measure_sparse(dimension));
    return measure_latency();
  }

 private:
  // Returns rounds of `begin` per second, with kWindow in flight, starting together with the other
  // workers.
  template <typename Begin>
  Result<double> rate(Begin begin) {
    for (int i = 0; i < 2; ++i) TALLY_TRY(client_.wait(begin(i), soon()));
    TALLY_TRY(client_.barrier(soon()));
    std::deque<Ticket> under_way;
    const TimePoint start = steady_now();
    int rounds = 0;
    while (steady_now() - start < options_.slice) {
      under_way.push_back(begin(rounds));
      if (under_way.size() < kWindow) continue;
      TALLY_TRY(client_.wait(under_way.front(), soon()));
      under_way.pop_front();
      ++rounds;
    }
    for (; !under_way.empty(); under_way.pop_front(), ++rounds)
      TALLY_TRY(client_.wait(under_way.front(), soon()));
    const double figure = rounds / seconds(steady_now() - start);
    TALLY_TRY(client_.barrier(soon()));
    return figure;
  }

  // Reports rounds per second, times `factor`.
  template <typename Begin>
  Result<void> measure(const std::string& name, double factor, Begin begin) {
    if (name.find(options_.only) == std::string::npos) return {};
    TALLY_TRY(const double rounds, rate(begin));
    tell(name, rounds * factor);
    return {};
  }

  TableSpec spec(const std::string& name) const {
    TableSpec made;
    made.name = name;
    made.optimizer.rate = 1;
    made.plan = "update=asp:rate=full";
    made.workers = options_.workers;
    return made;
  }

  Result<void> measure_dense() {
    constexpr std::size_t kCount = kDenseBytes / sizeof(float);
    TableSpec dense = spec("dense");
    dense.count = kCount;
    TALLY_TRY(const TableId table, client_.define(dense, soon()));
    const Client::PartRange all{table, 0, client_.parts(table)};
    TALLY_TRY(const std::span<float> gradient, shared<float>(client_, kCount));
    TALLY_TRY(const std::span<float> values, shared<float>(client_, kCount));
    std::fill(gradient.begin(), gradient.end(), 1.0F);
    const PushOptions push{.rate = 1};
    const auto out = std::as_bytes(gradient);
    const auto in = std::as_writable_bytes(values);
    TALLY_TRY(client_.wait(client_.push(all, push, out), soon()));
    TALLY_TRY(client_.barrier(soon()));
    TALLY_TRY(client_.wait(client_.pull(all, {}, in), soon()));
    for (std::size_t i = 0; i < kCount; ++i)
      if (values[i] != -static_cast<float>(options_.workers))
        return mismatch(fmt::format("element {} is {} after one push of each of {} workers", i,
                                    values[i], options_.workers));
    const double gigabytes = static_cast<double>(kDenseBytes) / 1e9;
    TALLY_TRY(measure("dense push", gigabytes, [&](int) { return client_.push(all, push, out); }));
    TALLY_TRY(measure("dense pull", gigabytes, [&](int) { return client_.pull(all, {}, in); }));
    return measure("dense push-and-pull", 2 * gigabytes,
                   [&](int) { return client_.push_pull(all, push, {}, out, in); });
  }

  Result<void> measure_sparse(int dimension) {
    const auto width = static_cast<std::size_t>(dimension);
    TableSpec sparse = spec(fmt::format("sparse {}", dimension));
    sparse.kind = server::TableKind::kSparse;
    sparse.dimension = static_cast<std::uint32_t>(dimension);
    TALLY_TRY(const TableId table, client_.define(sparse, soon()));
    Rng rng(static_cast<std::uint64_t>(options_.client.rank) * 1000 + width);
    std::vector<std::vector<std::uint64_t>> sets;
    for (int i = 0; i < kSets; ++i) sets.push_back(draw_keys(rng));
    TALLY_TRY(const std::span<float> gradient, shared<float>(client_, kKeysOfARound * width));
    std::vector<std::span<float>> rows;
    for (std::size_t i = 0; i < kWindow; ++i) {
      TALLY_TRY(const std::span<float> room, shared<float>(client_, kKeysOfARound * width));
      rows.push_back(room);
    }
    std::fill(gradient.begin(), gradient.end(), 1.0F);
    const PushOptions push{.rate = 1};
    TALLY_TRY(check_sparse(table, sets.front(), gradient, rows.front()));
    const auto keys = [&](int round) -> const std::vector<std::uint64_t>& {
      return sets[static_cast<std::size_t>(round) % kSets];
    };
    const double millions = static_cast<double>(kKeysOfARound) / 1e6;
    // Rows are created when they are first touched, which is not to be measured.
    for (int i = 0; i < kSets; ++i)
      TALLY_TRY(client_.wait(client_.push(table, push, keys(i), gradient), soon()));
    if (dimension == 1) {
      TALLY_TRY(measure("sparse push d1", millions,
                        [&](int i) { return client_.push(table, push, keys(i), gradient); }));
    }
    return measure(fmt::format("sparse push-and-pull d{}", dimension), millions, [&](int i) {
      return client_.push_pull(table, push, {}, keys(i), gradient,
                               rows[static_cast<std::size_t>(i) % kWindow]);
    });
  }

  // An untouched row is zero: after the first push of all workers it is the sum of their pushes.
  Result<void> check_sparse(TableId table, const std::vector<std::uint64_t>& keys,
                            std::span<const float> gradient, std::span<float> rows) {
    TALLY_TRY(
        client_.wait(client_.push_pull(table, {.rate = 1}, {}, keys, gradient, rows), soon()));
    TALLY_TRY(client_.barrier(soon()));
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i] > -1.0F || rows[i] < -static_cast<float>(options_.workers))
        return mismatch(fmt::format("row of key {} has {} after its first push",
                                    keys[i / (rows.size() / keys.size())], rows[i]));
    return {};
  }

  Result<void> measure_latency() {
    if (std::string("latency").find(options_.only) == std::string::npos) return {};
    TableSpec small = spec("small");
    small.count = 16;
    TALLY_TRY(const TableId table, client_.define(small, soon()));
    TALLY_TRY(const std::span<float> values, shared<float>(client_, 16));
    TALLY_TRY(client_.barrier(soon()));
    std::vector<double> times;
    for (int i = 0; i < kLatencies; ++i) {
      const TimePoint start = steady_now();
      TALLY_TRY(
          client_.wait(client_.pull({table, 0, 1}, {}, std::as_writable_bytes(values)), soon()));
      times.push_back(seconds(steady_now() - start) * 1e6);
    }
    TALLY_TRY(client_.barrier(soon()));
    tell("latency", quantile(times, 0.5));
    tell("latency p99", quantile(times, 0.99));
    return {};
  }

  Client& client_;
  const WorkerOptions& options_;
};

}  // namespace

Result<void> run_worker(const WorkerOptions& options) {
  TALLY_TRY(const auto client, Client::connect(options.client));
  // Barriers do not work here: a worker that joins later would not know of earlier ones.
  const Deadline by = soon();
  while (client->membership().workers < options.workers && !by.passed(steady_now()))
    std::this_thread::sleep_for(5ms);
  return Worker(*client, options).run();
}

}  // namespace tally::bench::servers
