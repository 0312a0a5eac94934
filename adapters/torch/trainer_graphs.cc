#include <fmt/format.h>

#include "adapters/torch/tensors.h"
#include "adapters/torch/trainer_impl.h"

// Steps of a trainer that run as CUDA graphs. CaptureRule decides which steps these are.
namespace tally {

// The reason why steps cannot be captured; empty if they can.
std::string Trainer::Impl::why_not_captured() const {
  if (!gpu_) return "the module is not on a GPU for which this build has kernels";
  if (!exchange().on_device())
    return "gradients leave the GPU with plan " + plan::to_string(plan_) +
           "; home=group update=bsp keeps them there, with most codecs";
  if (options_.accumulate > 1) return "accumulate adds to gradients, and a graph replaces them";
  if (options_.loss_scale) return "loss scaling changes the loss of a captured step";
  if (!disturbance_.is_none()) return "artificial delays need steps that run one by one";
  return {};
}

void Trainer::Impl::tell_no_graphs(std::string_view why) const {
  if (options_.on_event) options_.on_event(fmt::format("steps run without graphs: {}", why));
}

void Trainer::Impl::capture(const std::function<at::Tensor()>& mean_loss) {
  // The memory of an earlier graph can be used for this one.
  captured_loss_ = at::Tensor();
  bound_->forget_captured();
  bound_->forget_gradients();
  graph_->capture([&] {
    const at::Tensor loss = forward(mean_loss);
    bound_->backward(loss);
    captured_loss_ = loss.detach();
  });
  bound_->keep_captured();
}

// Returns whether the step was replayed.
bool Trainer::Impl::compute_captured(std::uint64_t samples,
                                     const std::function<at::Tensor()>& mean_loss) {
  using Way = adapter::CaptureRule::Way;
  const Way way = capture_rule_->next(samples);
  if (way == Way::kPlain) return false;
  if (way == Way::kCapture) {
    try {
      capture(mean_loss);
    } catch (const c10::Error& error) {
      capture_rule_->give_up();
      captured_loss_ = at::Tensor();
      zero_grad();
      tell_no_graphs(adapter::first_line(error.what_without_backtrace()));
      return false;
    } catch (...) {
      // An error of the program, which may try the step again.
      capture_rule_->forget_graph();
      throw;
    }
  }
  graph_->replay();
  bound_->show_captured();
  losses_.add(captured_loss_, static_cast<double>(samples));
  pending_.unit = pending_.samples = samples;
  return true;
}

}  // namespace tally
