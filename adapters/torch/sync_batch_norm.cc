#include <vector>

#include "adapters/torch/tensors.h"
#include "tally/torch.h"

namespace tally {

using adapter::or_throw;

namespace {

// Sums over all dimensions except the channels, in float64.
at::Tensor channel_sums(const at::Tensor& values) {
  std::vector<std::int64_t> others = {0};
  for (std::int64_t d = 2; d < values.dim(); ++d) others.push_back(d);
  return values.sum(others, false, at::kDouble);
}

// Reshapes to (1, C, 1, ...), with the number of dimensions of `like`.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = values.numel();
  return values.to(like.device(), like.scalar_type()).view(shape);
}

// Half types are normalised in float32: rounding would lose a mean that is large compared with the
// deviation.
at::Tensor widened(const at::Tensor& values) {
  const bool is_half = values.scalar_type() == at::kHalf || values.scalar_type() == at::kBFloat16;
  return is_half ? values.to(at::kFloat) : values;
}

// The sums over all ranks, on the CPU.
at::Tensor over_all_ranks(Communicator& communicator, const std::vector<at::Tensor>& sums) {
  const at::Tensor all = at::cat(sums).to(at::kCPU, at::kDouble).contiguous();
  or_throw(communicator.allreduce(
      std::span(all.data_ptr<double>(), static_cast<std::size_t>(all.numel()))));
  return all;
}

struct Statistics {
  at::Tensor mean;
  at::Tensor variance;  // biased
  double count = 0;     // values per channel, of all ranks
};

Statistics statistics_of(Communicator& communicator, const at::Tensor& input) {
  const std::int64_t channels = input.size(1);
  const double own = static_cast<double>(input.numel()) / static_cast<double>(channels);
  const at::Tensor all = over_all_ranks(
      communicator, {channel_sums(input), channel_sums(input.to(at::kDouble).square()),
                     at::full({1}, own, input.options().dtype(at::kDouble))});
  Statistics statistics{.count = all[2 * channels].item<double>()};
  statistics.mean = all.slice(0, 0, channels) / statistics.count;
  statistics.variance =
      (all.slice(0, channels, 2 * channels) / statistics.count - statistics.mean.square())
          .clamp_min(0);
  return statistics;
}

// Normalises with given statistics. The backward pass sums over all ranks, because every value
// contributes to the statistics.
class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& mean, const at::Tensor& scale, double count,
                            std::shared_ptr<Communicator> communicator) {
    const at::Tensor wide = widened(input);
    const at::Tensor normal = (wide - by_channel(mean, wide)) * by_channel(scale, wide);
    context->save_for_backward({normal, scale});
    context->saved_data["count"] = count;
    context->saved_data["communicator"] =
        c10::IValue::make_capsule(c10::make_intrusive<Holder>(std::move(communicator)));
    return normal.to(input.scalar_type());
  }

  // dx = scale * (dy - mean(dy) - x_hat * mean(dy * x_hat)), means over all ranks.
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& normal = saved[0];
    const at::Tensor gradient = widened(gradients[0]);
    const auto capsule = context->saved_data["communicator"].toCapsule();
    Communicator& communicator = *static_cast<Holder&>(*capsule).communicator;
    const at::Tensor sums =
        over_all_ranks(communicator, {channel_sums(gradient), channel_sums(gradient * normal)});
    const at::Tensor means = sums / context->saved_data["count"].toDouble();
    const std::int64_t channels = normal.size(1);
    const at::Tensor result =
        (gradient - by_channel(means.slice(0, 0, channels), gradient) -
         normal * by_channel(means.slice(0, channels, 2 * channels), gradient)) *
        by_channel(saved[1], gradient);
    return {result.to(gradients[0].scalar_type()), at::Tensor(), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }

 private:
  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<Communicator> shared) : communicator(std::move(shared)) {}
    std::shared_ptr<Communicator> communicator;
  };
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(Communicator& world, const SyncBatchNormOptions& options)
    : options_(options),
      communicator_(
          or_throw(world.split(0, world.rank(), Deadline::after(std::chrono::minutes(5))))) {
  if (options.features < 1) adapter::refuse(ErrorCode::kInvalid, "features must be at least 1");
  if (options.affine) {
    weight = register_parameter("weight", at::ones({options.features}));
    bias = register_parameter("bias", at::zeros({options.features}));
  }
  running_mean = register_buffer("running_mean", at::zeros({options.features}));
  running_var = register_buffer("running_var", at::ones({options.features}));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (input.dim() < 2 || input.size(1) != options_.features)
    adapter::refuse(ErrorCode::kInvalid, "the input must be (N, features, ...)");
  at::Tensor normal;
  if (is_training()) {
    Statistics statistics;
    {
      const at::NoGradGuard no_grad;
      statistics = statistics_of(*communicator_, input.detach());
      const double unbiased = statistics.count / std::max(statistics.count - 1, 1.0);
      running_mean.lerp_(statistics.mean.to(running_mean.options()), options_.momentum);
      running_var.lerp_((statistics.variance * unbiased).to(running_var.options()),
                        options_.momentum);
      num_batches_tracked += 1;
    }
    const at::Tensor scale = (statistics.variance + options_.epsilon).rsqrt();
    normal = Normalise::apply(input, statistics.mean, scale, statistics.count, communicator_);
  } else {
    const at::Tensor wide = widened(input);
    normal = ((wide - by_channel(running_mean, wide)) *
              by_channel((running_var + options_.epsilon).rsqrt(), wide))
                 .to(input.scalar_type());
  }
  if (!options_.affine) return normal;
  return normal * weight.view_as(by_channel(weight.detach(), input)) +
         bias.view_as(by_channel(bias.detach(), input));
}

}  // namespace tally
