#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/variable.h>

#include "adapters/torch/gradient_slots.h"
#include "adapters/torch/tensors.h"
#include "exchange/exchange.h"
#include "exchange/saved_model.h"

namespace tally::adapter {

// The trained parameters of a module, bound to the memory of an exchange. A parameter of the
// exchange's type and device is a view of its values; the views follow when the exchange moves its
// memory.
// Gradients stay where backward put them if the exchange can read them there; backward() makes
// libtorch allocate most of them in such memory. Other gradients are copied into the memory of the
// exchange, where later backwards add to them. Values of other parameters are copied to them, and
// their gradients from them. If the exchange needs it, a thread takes part in updates while this
// one computes. Throws Failure. Threads: calls must not overlap.
class BoundExchange final {
 public:
  // For an exchange that works on a device. Both may be empty.
  struct OnDevice {
    std::function<void()> before_use;  // called before calls that give the device work
    std::function<bool()> answers;     // waits for the device; false: it has failed or hangs
  };
  // The parameters must be on one device.
  BoundExchange(std::unique_ptr<exchange::Exchange> exchange, std::vector<NamedTensor> parameters,
                OnDevice device = {});
  // Gives the parameters memory of their own again: on the host, if their GPU has none left.
  ~BoundExchange();
  BoundExchange(const BoundExchange&) = delete;
  BoundExchange& operator=(const BoundExchange&) = delete;

  // For calls that touch neither values nor gradients.
  exchange::Exchange& exchange() { return *exchange_; }
  const exchange::Exchange& exchange() const { return *exchange_; }

  // As those of exchange::Exchange. begin() returns whether this rank computes a gradient.
  bool begin();
  void announce(const exchange::StepContribution& contribution);
  // loss.backward(), which puts gradients into the memory of the exchange where that is possible.
  void backward(const at::Tensor& loss);
  // Keeps the gradients of the last backward pass, which was captured. After a replay,
  // show_captured() makes them the gradients of the parameters.
  void keep_captured();
  void show_captured();
  void forget_captured();
  // libtorch accumulates gradients on the stream on which the hooks were made.
  void renew_hooks();
  // Whether other ranks rely on the announced gradients: the step must then be completed.
  bool is_announced() const { return announced_; }
  exchange::StepTotals complete(const exchange::StepContribution& contribution);
  void drain(const exchange::StepContribution& rest);
  // kInvalid if a parameter has other memory than after construction: the exchange would go on to
  // update that.
  void check_memory() const;
  // Clears the gradients; the next backward starts with none.
  void forget_gradients();

  // As those of exchange::Meetings.
  std::vector<double> sum(std::vector<double> values);
  std::vector<double> meet(std::vector<double> values);
  // Copies the tensors of the first rank to all ranks. Collective.
  void broadcast(const std::vector<NamedTensor>& tensors);
  // Time spent on copying gradients.
  Duration copying() const { return copying_; }

  // As exchange::add_states() and exchange::restore_states().
  void save(const exchange::TrainedModel& model, checkpoint::Content& content);
  void restore(const exchange::TrainedModel& model, const checkpoint::Reader& reader,
               const exchange::SavedCourse& course);

 private:
  // A shared or an intrusive pointer, depending on libtorch's version. Autograd itself holds only
  // weak references to accumulators.
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));
  struct Bound {
    at::Tensor parameter;
    at::Tensor placed;  // the same where this object has placed it
    std::string name;
    bool is_view = false;
    // Tensors over the memory of the exchange. Each has a storage of its own, which moves with all
    // views of it.
    at::Tensor values;
    at::Tensor gradient;   // with slots_: the gradient in its slot, until the update ends
    bool is_told = false;  // ready() was called since announce()
    Accumulator accumulator = {};
    std::uintptr_t hook = 0;  // of the accumulator
  };

  void install_hooks();
  void remove_hooks();
  void prepare() const;
  void arrived(std::size_t parameter);
  void tell(std::size_t parameter);
  bool can_stay(const Bound& bound) const;
  bool is_shared(std::size_t parameter) const;
  const std::byte* collect(std::size_t parameter);
  const std::byte* copy_on_device(std::size_t parameter);
  void move_gradient(std::size_t parameter);
  void take_slot(std::size_t parameter);
  void release_gradients();
  void gather();
  void end_update();
  static void give_own_memory(const Bound& bound);
  void follow_values();
  void follow_gradients();
  void publish_values();

  const std::unique_ptr<exchange::Exchange> exchange_;
  const OnDevice device_;
  const bool on_device_;                  // of the memory of the exchange
  std::vector<Bound> bound_;              // by parameter
  std::shared_ptr<GradientSlots> slots_;  // null: each gradient has its own place
  std::vector<std::size_t> arrivals_;     // parameters in the order of their gradients
  std::vector<at::Tensor> captured_;      // by parameter: its gradient in a captured pass
  std::vector<std::size_t> captured_arrivals_;
  bool begun_ = false;  // gradient() of the exchange is valid
  bool announced_ = false;
  Duration copying_{};
  std::jthread background_;
};

// Throws Failure, with the names of two parameters, unless all are on one device.
void check_one_device(const std::vector<NamedTensor>& parameters);

// Whether a BoundExchange has a hook on the parameter: a trainer trains it.
bool is_hooked(const at::Tensor& parameter);

// Writes the values of parameters into the memory of an exchange.
std::function<void(std::size_t parameter, DataType type, std::span<std::byte> values)>
initial_values(std::vector<NamedTensor> parameters);

}  // namespace tally::adapter
