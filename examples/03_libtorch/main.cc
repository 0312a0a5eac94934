// A libtorch program made distributed; the comments mark the changes. Run it alone, or with
//   tally run -n 2 -- 03_libtorch
#include <cstdio>

#include <tally/torch.h>  // instead of <torch/torch.h>

struct Net : torch::nn::Module {
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(2, 32));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(32, 1));
  at::Tensor forward(const at::Tensor& x) { return output(torch::tanh(hidden(x))); }
};

int main() {
  const auto job = tally::join();  // tally run, mpirun, srun, torchrun, or alone
  torch::manual_seed(1);
  const at::Tensor x = torch::rand({2000, 2}) * 2 - 1;
  const at::Tensor y = x.select(1, 0) * x.select(1, 1);
  Net net;
  tally::Trainer trainer(*job, net, tally::adam({.rate = 0.01}));  // instead of torch::optim::Adam
  double loss = 0;
  for (const auto& batch : trainer.shard(x, y, {.batch = 50, .epochs = 25}))  // this rank's part
    loss = trainer
               .step(batch.size(),
                     [&] {  // instead of zero_grad(), backward() and step()
                       return torch::mse_loss(net.forward(batch.x).squeeze(1), batch.y);
                     })
               .loss;
  if (job->rank() == 0)
    std::printf("%d ranks, %d steps: loss %s\n", job->size(), static_cast<int>(trainer.steps()),
                loss < 0.001 ? "below 0.001" : "is still high");
}
