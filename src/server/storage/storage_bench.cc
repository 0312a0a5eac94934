#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/rng.h"
#include "server/protocol/message.h"
#include "server/storage/storage.h"

// The work of one core on one part: a dense one of 256 KiB, and a quarter of a million sparse rows,
// as a table of a million has in each of four parts. Bytes of dense figures are those of the
// gradient; keys of sparse ones are counted once.
namespace tally::server {
namespace {

std::unique_ptr<Storage> made(const TableSpec& spec, MemoryBudget& budget) {
  auto storage = make_storage(spec, 0, budget);
  TALLY_CHECK(storage.has_value());
  return std::move(*storage);
}

TableSpec dense(const OptimizerSpec& optimizer) {
  return {.name = "dense",
          .kind = TableKind::kDense,
          .count = kPartBytes / sizeof(float),
          .optimizer = optimizer,
          .plan = ""};
}

// As many parts as fit into no cache, by turns.
struct DenseParts {
  MemoryBudget budget{0};
  std::vector<std::unique_ptr<Storage>> parts;
  std::vector<std::vector<float>> gradients;
  std::size_t turn = 0;

  explicit DenseParts(const OptimizerSpec& optimizer, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      parts.push_back(made(dense(optimizer), budget));
      gradients.emplace_back(kPartBytes / sizeof(float), 0.5F);
      // Touch all pages before the timing starts.
      TALLY_CHECK(parts.back()->assign({.values = std::as_bytes(std::span(gradients.back()))}));
    }
  }
  Gradient gradient() const { return {.values = std::as_bytes(std::span(gradients[turn]))}; }
  Storage& next() {
    turn = (turn + 1) % parts.size();
    return *parts[turn];
  }
};

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kPartBytes));
}

void dense_apply(benchmark::State& state, const OptimizerSpec& optimizer, std::size_t gradients) {
  DenseParts parts(optimizer, static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    Storage& part = parts.next();
    const std::vector<Gradient> pushed(gradients, parts.gradient());
    TALLY_CHECK(part.apply(pushed, {.rate = 1e-3}).has_value());
  }
  count_bytes(state);
}

void dense_add(benchmark::State& state) {
  DenseParts parts(sgd(), static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    Storage& part = parts.next();
    TALLY_CHECK(part.add(parts.gradient()).has_value());
  }
  count_bytes(state);
}

void dense_add_atomically(benchmark::State& state) {
  DenseParts parts(sgd(), static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    Storage& part = parts.next();
    TALLY_CHECK(part.add_atomically(parts.gradient(), 1).has_value());
  }
  count_bytes(state);
}

void dense_read(benchmark::State& state) {
  DenseParts parts(sgd(), static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> out(kPartBytes);
  for (auto _ : state) TALLY_CHECK(parts.next().read({}, out).has_value());
  count_bytes(state);
}

// Four parts of 250,000 rows, and requests of 5,000 random keys to each in turn.
struct SparseParts {
  static constexpr std::size_t kParts = 4;
  static constexpr std::uint64_t kRows = 1'000'000;
  static constexpr std::size_t kKeys = 5000;
  MemoryBudget budget{0};
  std::vector<std::unique_ptr<Storage>> parts;
  std::vector<std::vector<std::uint64_t>> requests;  // request i is for part i % kParts
  std::vector<float> rows;
  std::size_t turn = 0;

  SparseParts(std::uint32_t dimension, const OptimizerSpec& optimizer)
      : rows(kKeys * dimension, 0.5F) {
    const TableSpec spec{.name = "sparse",
                         .kind = TableKind::kSparse,
                         .dimension = dimension,
                         .optimizer = optimizer,
                         .plan = ""};
    std::vector<std::vector<std::uint64_t>> keys(kParts);
    for (std::uint64_t key = 0; key < kRows; ++key) keys[part_of_key(key, kParts)].push_back(key);
    Rng rng(1);
    for (std::size_t part = 0; part < kParts; ++part) {
      parts.push_back(made(spec, budget));
      TALLY_CHECK(parts.back()->prepare_rows(keys[part]).has_value());
    }
    for (std::size_t i = 0; i < 64 * kParts; ++i) {
      auto& own = keys[i % kParts];
      for (std::size_t k = 0; k < kKeys; ++k) std::swap(own[k], own[k + rng.below(own.size() - k)]);
      requests.emplace_back(own.begin(), own.begin() + kKeys);
    }
  }
  Storage& next() {
    turn = (turn + 1) % requests.size();
    return *parts[turn % kParts];
  }
  const std::vector<std::uint64_t>& keys() const { return requests[turn]; }
  Gradient gradient() const { return {.keys = keys(), .values = std::as_bytes(std::span(rows))}; }
};

void count_keys(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(SparseParts::kKeys));
}

void sparse_read(benchmark::State& state, std::uint32_t dimension) {
  SparseParts parts(dimension, sgd());
  std::vector<float> out(parts.rows.size());
  for (auto _ : state) {
    Storage& part = parts.next();
    TALLY_CHECK(part.read(parts.keys(), std::as_writable_bytes(std::span(out))).has_value());
  }
  count_keys(state);
}

void sparse_apply(benchmark::State& state, std::uint32_t dimension,
                  const OptimizerSpec& optimizer) {
  SparseParts parts(dimension, optimizer);
  for (auto _ : state) {
    Storage& part = parts.next();
    const Gradient pushed = parts.gradient();
    TALLY_CHECK(part.apply({&pushed, 1}, {.rate = 1e-3}).has_value());
  }
  count_keys(state);
}

// As a kPushPull: the keys are looked up twice, the second time in cache.
void sparse_apply_and_read(benchmark::State& state, std::uint32_t dimension) {
  SparseParts parts(dimension, sgd());
  std::vector<float> out(parts.rows.size());
  for (auto _ : state) {
    Storage& part = parts.next();
    const Gradient pushed = parts.gradient();
    TALLY_CHECK(part.apply({&pushed, 1}, {.rate = 1e-3}).has_value());
    TALLY_CHECK(part.read(parts.keys(), std::as_writable_bytes(std::span(out))).has_value());
  }
  count_keys(state);
}

void sparse_mean_of_two(benchmark::State& state, std::uint32_t dimension) {
  SparseParts parts(dimension, sgd());
  for (auto _ : state) {
    Storage& part = parts.next();
    const Gradient pushed[] = {parts.gradient(), parts.gradient()};
    TALLY_CHECK(part.apply(pushed, {.rate = 1e-3}).has_value());
  }
  state.SetItemsProcessed(state.iterations() * 2 * static_cast<std::int64_t>(SparseParts::kKeys));
}

void sparse_add(benchmark::State& state, std::uint32_t dimension, bool atomically) {
  SparseParts parts(dimension, sgd());
  for (auto _ : state) {
    Storage& part = parts.next();
    const auto done =
        atomically ? part.add_atomically(parts.gradient(), 1) : part.add(parts.gradient());
    TALLY_CHECK(done.has_value());
  }
  count_keys(state);
}

// A replica's work: rows as pieces, and taken.
void sparse_pieces(benchmark::State& state, std::uint32_t dimension, bool takes) {
  SparseParts parts(dimension, sgd());
  for (auto _ : state) {
    Storage& part = parts.next();
    const auto pieces = part.pieces(parts.keys(), false, kMaxPayloadBytes);
    for (const auto& piece : pieces) TALLY_CHECK(!takes || part.take(piece).has_value());
  }
  count_keys(state);
}

void sparse_grow(benchmark::State& state, std::uint32_t dimension) {
  std::vector<std::uint64_t> keys(SparseParts::kKeys);
  const TableSpec spec{
      .name = "sparse", .kind = TableKind::kSparse, .dimension = dimension, .plan = ""};
  constexpr std::size_t kRequests = 50;
  for (auto _ : state) {
    MemoryBudget budget(0);
    const auto storage = made(spec, budget);
    std::uint64_t next = 0;
    for (std::size_t r = 0; r < kRequests; ++r) {
      for (std::uint64_t& key : keys) key = next++;
      TALLY_CHECK(storage->prepare_rows(keys).has_value());
    }
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(kRequests * SparseParts::kKeys));
}

const bool kRegistered = [] {
  for (const std::int64_t parts : {2, 512}) {
    const std::pair<const char*, OptimizerSpec> optimizers[] = {
        {"sgd", sgd()}, {"momentum", sgd({.momentum = 0.9})}, {"adam", adam()}, {"ftrl", ftrl()}};
    for (const auto& [name, optimizer] : optimizers)
      benchmark::RegisterBenchmark(fmt::format("dense/apply/{}", name).c_str(), dense_apply,
                                   optimizer, 1)
          ->Arg(parts);
    benchmark::RegisterBenchmark("dense/apply_mean_of_4/sgd", dense_apply, sgd(), 4)->Arg(parts);
    benchmark::RegisterBenchmark("dense/add", dense_add)->Arg(parts);
    benchmark::RegisterBenchmark("dense/add_atomically", dense_add_atomically)->Arg(parts);
    benchmark::RegisterBenchmark("dense/read", dense_read)->Arg(parts);
  }
  for (const std::uint32_t dimension : {1U, 64U}) {
    const auto add = [&](const char* name, auto function, auto... arguments) {
      benchmark::RegisterBenchmark(fmt::format("sparse/{}/{}", name, dimension).c_str(), function,
                                   dimension, arguments...);
    };
    add("read", sparse_read);
    add("apply/sgd", sparse_apply, sgd());
    add("apply/adagrad", sparse_apply, adagrad());
    add("apply/adam", sparse_apply, adam());
    add("apply/ftrl", sparse_apply, ftrl());
    add("apply_and_read/sgd", sparse_apply_and_read);
    add("mean_of_two/sgd", sparse_mean_of_two);
    add("add", sparse_add, false);
    add("add_atomically", sparse_add, true);
    add("pieces", sparse_pieces, false);
    add("pieces_and_take", sparse_pieces, true);
    add("grow", sparse_grow);
  }
  return true;
}();

}  // namespace
}  // namespace tally::server
