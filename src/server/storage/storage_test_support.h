#pragma once
// For tests of storage: specs, random numbers, and conversion of values to bytes and back.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "server/storage/storage.h"

namespace tally::server {

inline TableSpec dense_spec(DataType type, std::uint64_t count,
                            const OptimizerSpec& optimizer = sgd()) {
  return {.name = "weights",
          .kind = TableKind::kDense,
          .type = type,
          .count = count,
          .optimizer = optimizer,
          .plan = ""};
}

inline TableSpec sparse_spec(std::uint32_t dimension, const OptimizerSpec& optimizer = sgd(),
                             double initial_scale = 0) {
  return {.name = "rows",
          .kind = TableKind::kSparse,
          .dimension = dimension,
          .optimizer = optimizer,
          .plan = "",
          .seed = 7,
          .initial_scale = initial_scale};
}

inline std::unique_ptr<Storage> made(const TableSpec& spec, MemoryBudget& budget,
                                     std::uint32_t part = 0) {
  auto storage = make_storage(spec, part, budget);
  TALLY_CHECK(storage.has_value());
  return std::move(*storage);
}

template <typename T>
std::vector<T> random_numbers(std::size_t count, Rng& rng) {
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<T>(2 * rng.uniform() - 1));
  return values;
}

template <typename T>
std::span<const std::byte> bytes_view(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

template <typename T>
std::vector<T> read_all(Storage& storage, std::span<const std::uint64_t> keys = {}) {
  std::vector<T> values(storage.value_bytes(keys.size()) / sizeof(T));
  const auto done = storage.read(keys, std::as_writable_bytes(std::span<T>(values)));
  EXPECT_TRUE(done.has_value()) << (done.has_value() ? "" : done.error().message);
  return values;
}

#define TALLY_EXPECT_OK(expression)                                            \
  do {                                                                         \
    const auto result_of_call = (expression);                                  \
    ASSERT_TRUE(result_of_call.has_value()) << result_of_call.error().message; \
  } while (false)

}  // namespace tally::server
