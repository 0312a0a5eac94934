// A training that continues after a stop, and ends with the same bits as one that was not stopped.
// The checkpoint has the model, the optimizer and the position in the data.
//   tally run -n 2 -- 07_resume FOLDER         saves every 20 steps; resumes if FOLDER has a save
//   tally run -n 2 -- 07_resume FOLDER 30      the same, but every rank dies after step 30
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <tally/torch.h>

using tally::or_throw;
namespace checkpoint = tally::checkpoint;

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("07_resume FOLDER [STEP]"), 2;
  const char* const folder = argv[1];
  const std::uint64_t dies_after = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;

  const auto job = tally::join();
  torch::manual_seed(1);
  const at::Tensor x = torch::rand({1000, 2}) * 2 - 1;
  const at::Tensor y = x.select(1, 0) * x.select(1, 1);
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  tally::Trainer trainer(*job, *net, tally::adam({.rate = 0.01}));

  const bool resumes = !checkpoint::list_steps(folder).empty();
  if (resumes)
    trainer.restore(*or_throw(checkpoint::Reader::open(or_throw(checkpoint::find_latest(folder)))));
  if (resumes && job->rank() == 0)
    std::printf("resumed at step %d\n", static_cast<int>(trainer.steps()));

  const auto writer = or_throw(checkpoint::Writer::make(job->world(), {.folder = folder}));
  const auto last_save = [&] {
    or_throw(writer->wait(tally::Deadline::after(std::chrono::minutes(1))));
  };
  // The loop begins at the position of the checkpoint.
  for (const auto& batch : trainer.shard(x, y, {.batch = 32, .epochs = 4})) {
    trainer.step(batch.size(),
                 [&] { return torch::mse_loss(net->forward(batch.x).squeeze(1), batch.y); });
    if (trainer.steps() % 20 == 0) or_throw(writer->save(trainer.checkpoint()));
    if (!resumes && trainer.steps() == dies_after) {
      last_save();
      std::raise(SIGKILL);
    }
  }
  or_throw(writer->save(trainer.checkpoint()));
  last_save();
  if (job->rank() == 0)
    std::printf("%d ranks, %d steps\n", job->size(), static_cast<int>(trainer.steps()));
}
