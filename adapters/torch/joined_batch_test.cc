// N workers train as one worker would with the joined batch: for every optimizer, in the group and
// on servers, in float64 over 100 steps. The reference is a plain loop over tensors, by the
// formulas of docs/optimizers.md.
#include <cmath>

#include <fmt/format.h>

#include "adapters/torch/test_nets.h"

namespace tally::adapter {
namespace {

constexpr int kSteps = 100;
constexpr std::int64_t kSamples = 24;
constexpr double kClipNorm = 0.4;  // of most of the first gradients

struct TinyNetImpl : torch::nn::Module {
  TinyNetImpl() : first(10, 7), last(7, 3) {
    register_module("first", first);
    register_module("last", last);
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return last(torch::tanh(first(x))); }
  torch::nn::Linear first;
  torch::nn::Linear last;
};
TORCH_MODULE(TinyNet);

TinyNet tiny_net() {
  const std::lock_guard lock(making());
  torch::manual_seed(5);
  return TinyNet();
}

at::Tensor tiny_loss(TinyNet& net, const TestBatch& batch) {
  return torch::cross_entropy_loss(net->forward(batch.x.to(at::kDouble)), batch.y);
}

// One parameter in a loop over tensors.
class PlainUpdate {
 public:
  PlainUpdate(const OptimizerSpec& spec, const at::Tensor& value) : spec_(spec) {
    a_ = at::full_like(value, spec.initial_accumulator);
    b_ = at::zeros_like(value);
    if (spec.kind == OptimizerKind::kFtrl) a_ = -(spec.beta / spec.rate) * value;
  }

  void step(at::Tensor& w, const at::Tensor& g) {
    ++t_;
    const double r = spec_.rate;
    const at::Tensor d = g + spec_.weight_decay * w;
    switch (spec_.kind) {
      case OptimizerKind::kSgd:
        a_ = t_ == 1 ? d : spec_.momentum * a_ + (1 - spec_.dampening) * d;
        w -= r * (spec_.nesterov ? d + spec_.momentum * a_ : a_);
        return;
      case OptimizerKind::kAdagrad:
        a_ += d * d;
        w -= r / (1 + (t_ - 1) * spec_.rate_decay) * d / (a_.sqrt() + spec_.epsilon);
        return;
      case OptimizerKind::kAdam:
        w -= r * direction(d);
        return;
      case OptimizerKind::kAdamW:
        w *= 1 - r * spec_.weight_decay;
        w -= r * direction(g);
        return;
      case OptimizerKind::kLamb: {
        const at::Tensor u = direction(g) + spec_.weight_decay * w;
        w -= r *
             ratio(norm(w), norm(u),
                   [&](double of_w, double of_u) {
                     return std::clamp(of_w / of_u, spec_.ratio_min, spec_.ratio_max);
                   }) *
             u;
        return;
      }
      case OptimizerKind::kLars: {
        const double local = ratio(norm(w), norm(g), [&](double of_w, double of_g) {
          return spec_.trust * of_w / (of_g + spec_.weight_decay * of_w + spec_.epsilon);
        });
        a_ = spec_.momentum * a_ + r * local * d;
        w -= a_;
        return;
      }
      case OptimizerKind::kFtrl: {
        const at::Tensor sigma = ((b_ + g * g).sqrt() - b_.sqrt()) / r;
        a_ += g - sigma * w;
        b_ += g * g;
        const at::Tensor far =
            -(a_ - a_.sign() * spec_.l1) / ((spec_.beta + b_.sqrt()) / r + spec_.l2);
        w.copy_(at::where(a_.abs() <= spec_.l1, at::zeros_like(w), far));
        return;
      }
    }
  }

 private:
  static double norm(const at::Tensor& tensor) { return tensor.norm().item<double>(); }
  template <typename Of>
  double ratio(double of_w, double of_u, Of of) const {
    return spec_.adapts && of_w > 0 && of_u > 0 ? of(of_w, of_u) : 1;
  }
  at::Tensor direction(const at::Tensor& d) {
    a_ = spec_.beta1 * a_ + (1 - spec_.beta1) * d;
    b_ = spec_.beta2 * b_ + (1 - spec_.beta2) * d * d;
    return a_ / (1 - std::pow(spec_.beta1, t_)) /
           (b_.sqrt() / std::sqrt(1 - std::pow(spec_.beta2, t_)) + spec_.epsilon);
  }

  const OptimizerSpec spec_;
  int t_ = 0;
  at::Tensor a_, b_;
};

std::vector<at::Tensor> train_plainly(const OptimizerSpec& spec, bool clips) {
  TinyNet net = tiny_net();
  std::vector<PlainUpdate> updates;
  for (const at::Tensor& parameter : net->parameters()) updates.emplace_back(spec, parameter);
  for (int step = 0; step < kSteps; ++step) {
    net->zero_grad();
    tiny_loss(net, test_batch(step, kSamples)).backward();
    if (clips) torch::nn::utils::clip_grad_norm_(net->parameters(), kClipNorm);
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> parameters = net->parameters();
    for (std::size_t p = 0; p < parameters.size(); ++p)
      updates[p].step(parameters[p], parameters[p].grad());
  }
  return copies_of(*net);
}

std::vector<at::Tensor> train_together(const OptimizerSpec& spec, const std::string& plan,
                                       int workers, bool clips) {
  std::vector<at::Tensor> result;
  run_threads(workers, [&](Job& job) {
    TinyNet net = tiny_net();
    TrainerOptions options{.plan = plan};
    if (clips) options.clip_norm = kClipNorm;
    Trainer trainer(job, *net, spec, options);
    for (int step = 0; step < kSteps; ++step) {
      // Unequal parts: 24 samples of 5, 7 or 8 workers do not divide evenly.
      const TestBatch own = part_of(test_batch(step, kSamples), job.rank(), workers);
      trainer.step(static_cast<std::uint64_t>(own.x.size(0)), [&] { return tiny_loss(net, own); });
    }
    if (job.rank() == 0) result = copies_of(*net);
    or_throw(job.world().barrier());
  });
  return result;
}

struct JoinedCase {
  std::string optimizer;
  bool clips = false;
};

class JoinedBatch : public testing::TestWithParam<JoinedCase> {};

TEST_P(JoinedBatch, IsTrainedByAnyNumberOfWorkers) {
  const OptimizerSpec spec = or_throw(parse_optimizer(GetParam().optimizer));
  const auto expected = train_plainly(spec, GetParam().clips);
  for (const char* plan : {"home=group", "home=server"})
    for (const int workers : {1, 2, 4, 5, 8})
      expect_near(train_together(spec, plan, workers, GetParam().clips), expected, 1e-10,
                  fmt::format("{} with {} workers", plan, workers));
}

INSTANTIATE_TEST_SUITE_P(
    Every, JoinedBatch,
    testing::Values(
        JoinedCase{"sgd:rate=0.3,decay=0.01"},
        JoinedCase{"momentum:rate=0.05,decay=0.01,dampening=0.1"},
        JoinedCase{"nesterov:rate=0.05,decay=0.01"},
        JoinedCase{"adagrad:rate=0.05,decay=0.01,rate_decay=0.01,initial=0.1"},
        JoinedCase{"adam:rate=0.01,decay=0.01"}, JoinedCase{"adamw:rate=0.01,decay=0.1", true},
        JoinedCase{"lamb:rate=0.02"}, JoinedCase{"lamb:rate=0.02,decay=0.1", true},
        JoinedCase{"lars:rate=1,decay=0.01,trust=0.01"}, JoinedCase{"lars:rate=1,trust=0.01", true},
        JoinedCase{"lars:rate=0.05,decay=0.01,adapt=off"},
        JoinedCase{"ftrl:rate=0.2,l1=0.01,l2=0.01"}, JoinedCase{"momentum:rate=0.1", true}),
    [](const auto& each) {
      const bool adapts = each.param.optimizer.find("adapt=off") == std::string::npos;
      return each.param.optimizer.substr(0, each.param.optimizer.find(':')) +
             (each.param.clips ? "_clipped" : "") + (adapts ? "" : "_unadapted");
    });

}  // namespace
}  // namespace tally::adapter
