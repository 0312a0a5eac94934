#include <benchmark/benchmark.h>

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

// Times work(part, gradient), which returns a Result, over the parts in turn.
template <typename Work>
void add_dense(const std::string& name, const OptimizerSpec& optimizer, Work work) {
  const auto run = [optimizer, work](benchmark::State& state) mutable {
    DenseParts parts(optimizer, static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
      Storage& part = parts.next();
      TALLY_CHECK(work(part, parts.gradient()).has_value());
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kPartBytes));
  };
  for (const std::int64_t parts : {2, 512})
    benchmark::RegisterBenchmark(("dense/" + name).c_str(), run)->Arg(parts);
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

// Times work(part, gradient), which uses `gradients` of them, over requests to the parts in turn.
template <typename Work>
void add_sparse(const std::string& name, std::uint32_t dimension, const OptimizerSpec& optimizer,
                Work work, std::size_t gradients = 1) {
  const auto run = [=](benchmark::State& state) mutable {
    SparseParts parts(dimension, optimizer);
    for (auto _ : state) {
      Storage& part = parts.next();
      TALLY_CHECK(work(part, parts.gradient()).has_value());
    }
    state.SetItemsProcessed(state.iterations() *
                            static_cast<std::int64_t>(gradients * SparseParts::kKeys));
  };
  benchmark::RegisterBenchmark(fmt::format("sparse/{}/{}", name, dimension).c_str(), run);
}

Result<void> apply(Storage& part, const Gradient& pushed, std::size_t times = 1) {
  const std::vector<Gradient> gradients(times, pushed);
  return part.apply(gradients, {.rate = 1e-3});
}

// A replica's work: rows as pieces, and taken.
Result<void> copy_rows(Storage& part, const Gradient& pushed, bool takes) {
  for (const auto& piece : part.pieces(pushed.keys, false, kMaxPayloadBytes))
    if (takes) TALLY_TRY(part.take(piece));
  return {};
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
  const std::pair<const char*, OptimizerSpec> optimizers[] = {{"sgd", sgd()},
                                                              {"momentum", sgd({.momentum = 0.9})},
                                                              {"adam", adam()},
                                                              {"adagrad", adagrad()},
                                                              {"ftrl", ftrl()}};
  const auto apply_one = [](Storage& part, const Gradient& pushed) { return apply(part, pushed); };
  const auto add = [](Storage& part, const Gradient& pushed) { return part.add(pushed); };
  const auto add_atomically = [](Storage& part, const Gradient& pushed) {
    return part.add_atomically(pushed, 1);
  };
  for (const auto& [name, optimizer] : optimizers)
    add_dense(fmt::format("apply/{}", name), optimizer, apply_one);
  add_dense("apply_mean_of_4/sgd", sgd(),
            [](Storage& part, const Gradient& pushed) { return apply(part, pushed, 4); });
  add_dense("add", sgd(), add);
  add_dense("add_atomically", sgd(), add_atomically);
  add_dense("read", sgd(),
            [out = std::vector<std::byte>(kPartBytes)](Storage& part, const Gradient&) mutable {
              return part.read({}, out);
            });
  for (const std::uint32_t dimension : {1U, 64U}) {
    const std::vector<std::byte> room(SparseParts::kKeys * dimension * sizeof(float));
    auto read = [out = room](Storage& part, const Gradient& pushed) mutable {
      return part.read(pushed.keys, out);
    };
    add_sparse("read", dimension, sgd(), read);
    for (const auto& [name, optimizer] : optimizers)
      add_sparse(fmt::format("apply/{}", name), dimension, optimizer, apply_one);
    // As a kPushPull: the keys are looked up twice, the second time in cache.
    add_sparse("apply_and_read/sgd", dimension, sgd(),
               [read = read](Storage& part, const Gradient& pushed) mutable -> Result<void> {
                 TALLY_TRY(apply(part, pushed));
                 return read(part, pushed);
               });
    add_sparse(
        "mean_of_two/sgd", dimension, sgd(),
        [](Storage& part, const Gradient& pushed) { return apply(part, pushed, 2); }, 2);
    add_sparse("add", dimension, sgd(), add);
    add_sparse("add_atomically", dimension, sgd(), add_atomically);
    add_sparse("pieces", dimension, sgd(),
               [](Storage& part, const Gradient& rows) { return copy_rows(part, rows, false); });
    add_sparse("pieces_and_take", dimension, sgd(),
               [](Storage& part, const Gradient& rows) { return copy_rows(part, rows, true); });
    benchmark::RegisterBenchmark(fmt::format("sparse/grow/{}", dimension).c_str(), sparse_grow,
                                 dimension);
  }
  return true;
}();

}  // namespace
}  // namespace tally::server
