// A program outside of the project that trains with libtorch: finds the weights that its data were
// made with.
#include <cstdio>

#include <tally/torch.h>

int main() {
  torch::manual_seed(1);
  const auto job = tally::join();
  torch::nn::Linear net(3, 1);
  tally::Trainer trainer(*job, *net, tally::sgd({.rate = 0.1}));
  const torch::Tensor x = torch::randn({64, 3});
  const torch::Tensor y = x.matmul(torch::tensor({1.0F, -2.0F, 3.0F}).reshape({3, 1}));
  double loss = 1;
  for (const auto& batch : trainer.shard(x, y, {.batch = 32, .epochs = 100}))
    loss =
        trainer.step(batch.size(), [&] { return torch::mse_loss(net->forward(batch.x), batch.y); })
            .loss;
  std::printf("trained on %d rank, loss %s\n", job->size(),
              loss < 1e-6 ? "below 1e-6" : "too high");
  return loss < 1e-6 ? 0 : 1;
}
