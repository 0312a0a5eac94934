#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/update_rows.h"
#include "server/protocol/message.h"
#include "server/storage/row_table.h"
#include "server/storage/storage.h"

namespace tally::server {

// The weighted sum of several sets of rows over the union of their keys, by a hash table that is
// reused. Threads: calls must not overlap.
class SparseSum final {
 public:
  explicit SparseSum(std::uint32_t dimension) : dimension_(dimension) {}

  // Starts an empty sum of at most `most` keys.
  void begin(std::size_t most);
  // Rounds each product and each sum to float, in the order of the calls.
  void add(std::span<const std::uint64_t> keys, const float* rows, float weight);

  // In the order of their first occurrence.
  std::span<const std::uint64_t> keys() const { return keys_; }
  const float* rows() const { return rows_.data(); }

 private:
  struct Place {
    std::size_t row = 0;
    bool is_new = false;
  };
  Place place_of(std::uint64_t key);

  const std::uint32_t dimension_;
  std::vector<std::uint64_t> keys_;
  std::vector<float> rows_;
  std::vector<std::uint32_t> slots_;  // index of the key plus one; 0: empty
  int bits_ = 0;
};

// Rows by key. Each row has its own optimizer state and step count ("lazy Adam"): a row without a
// gradient is not touched, and bias corrections count the updates of the row.
class SparseStorage final : public Storage {
 public:
  // The spec has passed check().
  SparseStorage(const TableSpec& spec, std::uint32_t part, MemoryBudget& budget);

  Result<void> apply(std::span<const Gradient> gradients, const ApplyOptions& options) override;
  Result<void> add(const Gradient& gradient) override;
  Result<void> assign(const Gradient& gradient) override;
  Result<void> add_atomically(const Gradient& gradient, double factor) override;
  Result<void> prepare_rows(std::span<const std::uint64_t> keys) override;
  std::size_t value_bytes(std::size_t keys) const override;
  Result<void> read(std::span<const std::uint64_t> keys, std::span<std::byte> out) override;
  Result<void> read_state(int array, std::span<std::byte> out) const override;
  Result<void> write_state(int array, std::span<const std::byte> in) override;
  void set_steps(std::uint64_t) override {}
  std::vector<std::vector<std::byte>> pieces(std::span<const std::uint64_t> only, bool everything,
                                             std::size_t max_bytes) const override;
  Result<void> take(std::span<const std::byte> piece) override;
  void clear() override { table_.clear(); }
  std::uint64_t elements() const override { return table_.size(); }
  std::uint64_t bytes() const override { return table_.bytes(); }

 private:
  // An error that names the part.
  template <typename... Args>
  Error wrong(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(code, "{}: {}", name_of_part(spec_, part_),
                      fmt::format(text, std::forward<Args>(args)...));
  }
  Result<void> check_gradient(const Gradient& gradient) const;
  // Calls `work` with each batch of rows and the index of its first key; makes missing rows.
  template <typename Work>
  Result<void> for_rows(std::span<const std::uint64_t> keys, Work work);
  void update(std::span<const Row> rows, const float* gradient, double rate);
  void update_gathered(std::span<const Row> rows, const float* gradient, double rate);
  void add_each(std::span<const Row> rows, const std::byte* from) const;
  std::vector<Row> rows_of(std::span<const std::uint64_t> only, bool everything) const;

  const TableSpec spec_;
  const std::uint32_t part_;
  const std::uint8_t arrays_;
  MemoryBudget& budget_;
  RowTable table_;
  optimizer::RowUpdate rule_;
  SparseSum sum_;
  std::vector<float> gathered_;  // arrays_ times RowTable::kBatch rows
};

}  // namespace tally::server
