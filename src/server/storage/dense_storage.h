#pragma once
#include <memory>
#include <vector>

#include "optimizer/update_rule.h"
#include "server/protocol/message.h"
#include "server/storage/memory.h"
#include "server/storage/storage.h"
#include "server/storage/table_codec.h"

namespace tally::server {

// A range of a vector. T is float or double, as the spec's type.
template <typename T>
class DenseStorage final : public Storage {
 public:
  // The spec has passed check() and has this part; `codec` is the table's, or null. kExhausted
  // where there is no memory.
  static Result<std::unique_ptr<Storage>> make(const TableSpec& spec, std::uint32_t part,
                                               std::shared_ptr<const TableCodec> codec,
                                               MemoryBudget& budget);

  Result<void> apply(std::span<const Gradient> gradients, const ApplyOptions& options) override;
  std::span<const std::byte> average() const override { return average_; }
  Result<void> add(const Gradient& gradient) override;
  Result<void> assign(const Gradient& gradient) override;
  Result<void> add_atomically(const Gradient& gradient, double factor) override;
  Result<void> prepare_rows(std::span<const std::uint64_t> keys) override;
  std::size_t value_bytes(std::size_t keys) const override;
  Result<void> read(std::span<const std::uint64_t> keys, std::span<std::byte> out) override;
  Result<void> read_for_others(std::span<const std::uint64_t> keys,
                               std::span<std::byte> out) override;
  Result<void> read_state(int array, std::span<std::byte> out) const override;
  Result<void> write_state(int array, std::span<const std::byte> in) override;
  void set_steps(std::uint64_t steps) override { steps_ = steps; }
  std::vector<std::vector<std::byte>> pieces(std::span<const std::uint64_t> only, bool everything,
                                             std::size_t max_bytes) const override;
  Result<void> take(std::span<const std::byte> piece) override;
  void clear() override;
  std::uint64_t elements() const override { return count_; }
  std::uint64_t bytes() const override { return arrays() * count_ * sizeof(T); }

 private:
  DenseStorage(const TableSpec& spec, std::uint32_t part, std::shared_ptr<const TableCodec> codec,
               MemoryBudget& budget);

  // An error that names the part.
  template <typename... Args>
  Error wrong(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(code, "{}: {}", name_of_part(spec_, part_),
                      fmt::format(text, std::forward<Args>(args)...));
  }
  Result<void> check_bytes(const char* what, std::size_t bytes) const;
  Result<T*> state_array(int array) const;
  // Arrays in order: values, optimizer state, residual of the averages' codec (if any), mean square
  // (if any).
  T* array(std::size_t index) const;
  std::size_t arrays() const { return 1 + kept_arrays_ + (mean_square_.data() != nullptr ? 1 : 0); }
  optimizer::Segment<T> segment(std::size_t begin, std::size_t count, T* gradient) const;
  void reset_state();
  Result<void> ensure_mean_square();
  void apply_coded(std::span<const void* const> inputs, std::span<const double> weights,
                   const ApplyOptions& options);
  void apply_blocks(std::span<const void* const> inputs, std::span<const T> shares,
                    const ApplyOptions& options, const T* backup);
  void compensate(const ApplyOptions& options, const T* backup, std::size_t begin,
                  std::size_t count);

  const TableSpec spec_;
  const std::uint32_t part_;
  const std::size_t count_;
  const std::shared_ptr<const TableCodec> codec_;  // of the whole table
  const std::size_t state_arrays_;
  const std::size_t kept_arrays_;  // state_arrays_ and the residual
  const std::size_t stride_;       // elements from one array to the next
  GrowingMemory memory_;
  GrowingMemory mean_square_;
  std::uint64_t steps_ = 0;
  std::vector<T> scratch_;
  std::vector<std::byte> average_;
};

extern template class DenseStorage<float>;
extern template class DenseStorage<double>;

}  // namespace tally::server
