// A user's program outside of the project: two ranks add, save a checkpoint and read it again.
//
//   consumer FOLDER     says "sum 3, read 3 of step 7"
//   consumer --join     joins the job that it was started in, by whatever engine, and says its size
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <tally/accumulator.h>
#include <tally/checkpoint.h>
#include <tally/job.h>

namespace {

namespace checkpoint = tally::checkpoint;

tally::Result<void> run_rank(tally::Job& job, const char* folder) {
  std::vector<float> sum{static_cast<float>(job.rank() + 1)};
  TALLY_TRY(job.world().allreduce(std::span(sum)));
  TALLY_TRY(const auto writer, checkpoint::Writer::make(job.world(), {.folder = folder}));
  checkpoint::Content content{.step = 7, .tensors = {{.name = "sum", .shape = {1}}}, .state = "{}"};
  if (job.rank() == 1) content.model = {{.bytes = std::as_bytes(std::span(sum))}};
  TALLY_TRY(writer->save(content));
  TALLY_TRY(writer->wait(tally::Deadline::after(std::chrono::seconds(30))));
  if (job.rank() != 0) return {};
  TALLY_TRY(const auto path, checkpoint::find_latest(folder));
  TALLY_TRY(const auto reader, checkpoint::Reader::open(path));
  std::vector<float> again(1);
  TALLY_TRY(reader->read("sum", 0, std::as_writable_bytes(std::span(again))));
  std::printf("sum %g, read %g of step %d\n", sum[0], again[0], static_cast<int>(reader->step()));
  return {};
}

int report(const tally::Result<void>& outcome) {
  if (outcome) return 0;
  std::fprintf(stderr, "%s\n", tally::to_string(outcome.error()).c_str());
  return 1;
}

tally::Result<void> join() {
  TALLY_TRY(const auto job, tally::Job::join());
  TALLY_TRY(job->world().barrier());
  if (job->rank() == 0) std::printf("joined %d ranks\n", job->size());
  job->close();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (std::strcmp(argv[1], "--join") == 0) return report(join());
  auto jobs = tally::Job::in_process(2);
  if (!jobs) return report(jobs.error());
  std::vector<tally::Result<void>> outcomes(2);
  std::thread other([&] { outcomes[1] = run_rank(*(*jobs)[1], argv[1]); });
  outcomes[0] = run_rank(*(*jobs)[0], argv[1]);
  other.join();
  return report(outcomes[0]) + report(outcomes[1]);
}
