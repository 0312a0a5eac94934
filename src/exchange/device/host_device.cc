#include "exchange/device/host_device.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/errors.h"
#include "exchange/device/host_codec.h"
#include "exchange/device/host_low_rank.h"
#include "kernel/array/norm.h"
#include "kernel/array/weighted_sum.h"
#include "kernel/reduce/reduce.h"
#include "kernel/update/update.h"

namespace tally::exchange {
namespace {

template <typename F>
F factors_of(const DevicePiece& piece) {
  static_assert(sizeof(F) <= sizeof(piece.factors));
  F factors;
  std::memcpy(&factors, piece.factors.data(), sizeof(F));
  return factors;
}

// A cell of a bucket whose computations are in C.
template <typename C>
class Cell {
 public:
  Cell(const DeviceBucket& bucket, const DeviceCell& cell) : bucket_(bucket), cell_(cell) {}

  // widen() is called before there are pieces.
  const DevicePiece& piece() const { return bucket_.pieces[cell_.piece]; }
  std::size_t count() const { return cell_.count; }
  bool is_half() const { return bucket_.master != nullptr; }
  C* array(std::byte* of_bucket) const { return reinterpret_cast<C*>(of_bucket) + cell_.first; }
  C* values() const { return array(is_half() ? bucket_.master : bucket_.values); }
  C* state(std::size_t k) const { return array(bucket_.state[k]); }

  // The changed gradient.
  std::vector<C> gradient(const GradientChange& change) const {
    std::vector<C> out(count());
    load(out.data());
    if (change.factor != 1) kernel::scale(out.data(), count(), static_cast<C>(change.factor));
    if (change.limit > 0) kernel::clamp(out.data(), count(), static_cast<C>(change.limit));
    if (change.scale != 1) kernel::scale(out.data(), count(), static_cast<C>(change.scale));
    return out;
  }

  // Rounds the master copy.
  void publish() const {
    if constexpr (std::is_same_v<C, float>)
      if (is_half()) kernel::kernels().narrow(bucket_.type, values(), narrow_values(), count());
  }
  void widen() const {
    if constexpr (std::is_same_v<C, float>)
      if (is_half()) kernel::kernels().widen(bucket_.type, narrow_values(), values(), count());
  }

 private:
  std::byte* narrow_values() const { return bucket_.values + cell_.first * size_of(bucket_.type); }

  void load(C* out) const {
    if (piece().gradient == nullptr) {
      std::memcpy(out, array(bucket_.sums), count() * sizeof(C));
      return;
    }
    const std::byte* const from =
        piece().gradient + (cell_.first - piece().first) * size_of(bucket_.type);
    if constexpr (std::is_same_v<C, float>)
      if (bucket_.type != DataType::kFloat32)
        return kernel::kernels().widen(bucket_.type, from, out, count());
    std::memcpy(out, from, count() * sizeof(C));
  }

  const DeviceBucket& bucket_;
  const DeviceCell& cell_;
};

template <typename C>
void update_cell(const Cell<C>& cell, UpdateLoop loop, std::vector<C> gradient, C* direction) {
  using namespace kernel;
  const UpdateKernels<C>& loops = update_kernels<C>();
  const DevicePiece& piece = cell.piece();
  C* const values = cell.values();
  const std::size_t count = cell.count();
  const C* const slope = gradient.data();
  switch (loop) {
    case UpdateLoop::kSgd:
      loops.sgd(factors_of<SgdFactors<C>>(piece), values, slope, count);
      break;
    case UpdateLoop::kMomentum:
      loops.momentum(factors_of<SgdFactors<C>>(piece), values, slope, cell.state(0), count);
      break;
    case UpdateLoop::kNesterov:
      loops.nesterov(factors_of<SgdFactors<C>>(piece), values, slope, cell.state(0), count);
      break;
    case UpdateLoop::kAdagrad:
      loops.adagrad(factors_of<AdagradFactors<C>>(piece), values, slope, cell.state(0), count);
      break;
    case UpdateLoop::kAdam:
      loops.adam(factors_of<AdamFactors<C>>(piece), values, slope, cell.state(0), cell.state(1),
                 count);
      break;
    case UpdateLoop::kLambDirection:
      loops.lamb_direction(factors_of<AdamFactors<C>>(piece), values, gradient.data(),
                           cell.state(0), cell.state(1), count);
      std::copy(gradient.begin(), gradient.end(), direction);
      return;
    case UpdateLoop::kLars:
      loops.lars(factors_of<LarsFactors<C>>(piece), values, slope, cell.state(0), count);
      break;
    case UpdateLoop::kFtrl:
      if (piece.begins != 0)
        for (std::size_t i = 0; i < count; ++i) {
          cell.state(0)[i] = -static_cast<C>(piece.pull) * values[i];
          cell.state(1)[i] = 0;
        }
      loops.ftrl(factors_of<FtrlFactors<C>>(piece), values, slope, cell.state(0), cell.state(1),
                 count);
      break;
  }
  cell.publish();
}

class HostDevice final : public Device {
 public:
  std::string name() const override { return "host memory"; }
  std::string id() const override { return "host"; }
  void use_stream(void* /*stream*/) override {}

  Result<DeviceMemory> allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 512;
    const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment;
    void* const data = std::aligned_alloc(kAlignment, rounded * kAlignment);
    if (data == nullptr)
      return make_error(ErrorCode::kExhausted, "no {} bytes of memory are left", bytes);
    std::memset(data, 0, rounded * kAlignment);
    return DeviceMemory{.data = static_cast<std::byte*>(data),
                        .bytes = bytes,
                        .owner = std::shared_ptr<void>(data, std::free)};
  }
  Result<void> write(std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    return {};
  }
  Result<void> post(std::byte* to, std::span<const std::byte> from) override {
    return write(to, from);
  }
  Result<void> read(std::span<std::byte> to, const std::byte* from) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
    return {};
  }
  Result<void> copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return {};
  }
  Result<void> wait(Deadline /*by*/) override { return {}; }

  Result<void> gather(const DeviceBucket& bucket, const GradientChange& change) override {
    for_cells(bucket, [&](const auto& cell, std::size_t) {
      auto* const sums = cell.array(bucket.sums);
      if (cell.piece().used == 0) {
        std::fill_n(sums, cell.count(), 0);
        return;
      }
      const auto gradient = cell.gradient(change);
      std::copy(gradient.begin(), gradient.end(), sums);
    });
    return {};
  }
  Result<void> squares(const DeviceBucket& bucket, const GradientChange& change,
                       Squares* squares) override {
    for_cells(bucket, [&](const auto& cell, std::size_t k) {
      using C = std::remove_pointer_t<decltype(cell.values())>;
      squares[k] = {.values = kernel::square_sum(std::span<const C>(cell.values(), cell.count()))};
      if (cell.piece().used == 0) return;
      const auto gradient = cell.gradient(change);
      squares[k].gradient = kernel::square_sum(std::span<const C>(gradient));
    });
    return {};
  }
  Result<void> update(const DeviceBucket& bucket, UpdateLoop loop,
                      const GradientChange& change) override {
    for_cells(bucket, [&](const auto& cell, std::size_t) {
      if (cell.piece().used == 0) return;
      using C = std::remove_pointer_t<decltype(cell.values())>;
      C* const direction = loop == UpdateLoop::kLambDirection ? cell.array(bucket.sums) : nullptr;
      update_cell<C>(cell, loop, cell.gradient(change), direction);
    });
    return {};
  }
  Result<void> sum(DataType type, std::span<const std::byte* const> from, std::byte* to,
                   std::size_t count) override {
    const auto add = [&]<typename T>(T* into) {
      std::vector<T> total(reinterpret_cast<const T*>(from[0]),
                           reinterpret_cast<const T*>(from[0]) + count);
      for (const std::byte* const source : from.subspan(1))
        for (std::size_t i = 0; i < count; ++i) total[i] += reinterpret_cast<const T*>(source)[i];
      std::copy(total.begin(), total.end(), into);
    };
    if (type == DataType::kFloat64)
      add(reinterpret_cast<double*>(to));
    else
      add(reinterpret_cast<float*>(to));
    return {};
  }
  Result<void> widen(const DeviceBucket& bucket) override {
    for_cells(bucket, [](const auto& cell, std::size_t) { cell.widen(); });
    return {};
  }
  Result<std::unique_ptr<DeviceCodec>> make_codec(const plan::CodecSpec& spec, std::size_t most,
                                                  const codec::Shape& shape,
                                                  std::uint32_t* damaged) override {
    return host_codec(spec, most, shape, damaged);
  }
  Result<std::unique_ptr<DeviceLowRank>> make_low_rank(const codec::PowerSgd::Options& options,
                                                       bool feedback) override {
    return host_low_rank(options, feedback);
  }

 private:
  // Calls use(cell, number) for each cell of the bucket.
  template <typename Use>
  static void for_cells(const DeviceBucket& bucket, const Use& use) {
    for (std::size_t k = 0; k < bucket.cell_count; ++k) {
      if (bucket.type == DataType::kFloat64)
        use(Cell<double>(bucket, bucket.cells[k]), k);
      else
        use(Cell<float>(bucket, bucket.cells[k]), k);
    }
  }
};

}  // namespace

std::unique_ptr<Device> host_device() { return std::make_unique<HostDevice>(); }

}  // namespace tally::exchange
