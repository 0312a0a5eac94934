// A training loop of your own: any number of backward passes, a look at the gradients, then one
// update of all ranks.
//   tally run -n 2 -- 04_own_loop
#include <cmath>
#include <cstdio>

#include <tally/torch.h>

int main() {
  const auto job = tally::join();
  torch::manual_seed(1);
  torch::nn::Linear line(1, 1);
  tally::Trainer trainer(*job, *line, tally::sgd({.rate = 0.1, .momentum = 0.5}));

  // Every rank has its own points and a different number of them: y = 3 x - 1.
  const std::int64_t samples = 20 + 10 * job->rank();
  const at::Tensor x = torch::linspace(-1, 1, samples).unsqueeze(1);
  const at::Tensor y = 3 * x - 1;

  for (int step = 0; step < 200; ++step) {
    const at::Tensor loss = torch::mse_loss(line(x), y);
    loss.backward();
    if (std::isnan(line->weight.grad().item<double>())) return 1;
    trainer.apply(static_cast<std::uint64_t>(samples), loss.item<double>());
  }
  if (job->rank() == 0)
    std::printf("learned y = %.3f x %+.3f on %d ranks\n", line->weight.item<double>(),
                line->bias.item<double>(), job->size());
}
