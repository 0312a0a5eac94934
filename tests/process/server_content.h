#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tally/server.h"

// The values that workers of the server tests push. Each worker adds 1 to its own elements in every
// part of a dense table and in every row of a sparse one, so that the tables show how often each
// part has received each worker's push.
namespace tally::process {

inline constexpr int kMostWorkers = 8;
inline constexpr std::size_t kPartElements = (std::size_t{256} << 10) / sizeof(float);
inline constexpr std::size_t kDenseElements = 3 * kPartElements + 1000;
inline constexpr std::size_t kKeys = 200;
// The most pushes to a table that a worker has under way.
inline constexpr int kWindow = 2;

inline server::TableSpec dense_spec() {
  server::TableSpec spec;
  spec.name = "dense";
  spec.count = kDenseElements;
  spec.plan = "update=asp";
  return spec;
}

inline server::TableSpec sparse_spec() {
  server::TableSpec spec;
  spec.name = "sparse";
  spec.kind = server::TableKind::kSparse;
  spec.dimension = kMostWorkers;
  spec.plan = "update=asp";
  return spec;
}

inline std::vector<float> dense_push(int rank) {
  std::vector<float> values(kDenseElements, 0.0F);
  for (std::size_t i = static_cast<std::size_t>(rank); i < values.size(); i += kMostWorkers)
    values[i] = 1.0F;
  return values;
}

inline std::vector<std::uint64_t> all_keys() {
  std::vector<std::uint64_t> keys(kKeys);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i * 0x9E3779B97F4A7C15ULL + 1;
  return keys;
}

inline std::vector<float> sparse_push(int rank) {
  std::vector<float> rows(kKeys * kMostWorkers, 0.0F);
  for (std::size_t i = static_cast<std::size_t>(rank); i < rows.size(); i += kMostWorkers)
    rows[i] = 1.0F;
  return rows;
}

}  // namespace tally::process
