#include "apps/train/evaluation.h"

#include <algorithm>

#include "adapters/torch/precision_scope.h"
#include "apps/train/batches.h"
#include "data/order.h"
#include "train/loader.h"

namespace tally::app {
namespace {

// Result of one rank. For binary classification also the score and label of each sample, for a
// regression sums of the targets.
struct ScoredPart {
  recipes::Judgement all;
  double targets = 0;
  double squared_targets = 0;
  std::vector<double> counts;  // by label, if there is an accuracy
  std::vector<double> scores;
  std::vector<double> labels;
};

// Adds the number of each label in `targets`.
void count_labels(const at::Tensor& targets, std::int64_t labels, std::vector<double>& counts) {
  counts.resize(static_cast<std::size_t>(labels));
  const at::Tensor all = at::bincount(targets.reshape({-1}).to(at::kCPU, at::kLong), {}, labels);
  for (std::int64_t label = 0; label < labels; ++label)
    counts[static_cast<std::size_t>(label)] += static_cast<double>(all[label].item<std::int64_t>());
}

void append(const at::Tensor& values, std::vector<double>& to) {
  const at::Tensor plain = values.reshape({-1}).to(at::kCPU, at::kDouble).contiguous();
  to.insert(to.end(), plain.data_ptr<double>(), plain.data_ptr<double>() + plain.numel());
}

struct JudgeOptions {
  recipes::Task task = recipes::Task::kClassification;
  std::uint64_t batch = 64;
  int loader_threads = 1;
  std::string precision = "float32";
  bool channels_last = false;
  Rank rank = 0;  // evaluates its part of the samples
  int workers = 1;
};

ScoredPart judge_part(recipes::Model& model, const data::Dataset& dataset,
                      const JudgeOptions& options, const at::Device& device) {
  const torch::NoGradGuard no_gradients;
  train::Loader loader(dataset,
                       data::Order({.strategy = data::Strategy::kPartition,
                                    .size = dataset.size(),
                                    .batch = options.batch,
                                    .shuffle = false,
                                    .rank = options.rank,
                                    .workers = options.workers}),
                       {.threads = options.loader_threads});
  ScoredPart part;
  for (bool last = false; !last;) {
    auto batch = loader.next();
    if (!batch) throw Failure(std::move(batch).error());
    last = batch->last_of_epoch;
    if (batch->samples == 0) continue;
    const TensorBatch tensors = to_tensors(*batch, dataset.shape(), device);
    at::Tensor output;
    {
      const adapter::PrecisionScope precision(options.precision, device);
      output =
          model.forward(options.channels_last ? with_channels_last(tensors.input) : tensors.input);
    }
    const recipes::Judgement judgement = recipes::judge(options.task, output, tensors.target);
    part.all.loss += judgement.loss;
    part.all.correct += judgement.correct;
    part.all.predictions += judgement.predictions;
    if (recipes::has_accuracy(options.task))
      count_labels(tensors.target, options.task == recipes::Task::kBinary ? 2 : output.size(-1),
                   part.counts);
    if (options.task == recipes::Task::kRegression) {
      const at::Tensor targets = tensors.target.to(at::kDouble);
      part.targets += targets.sum().item<double>();
      part.squared_targets += targets.square().sum().item<double>();
    }
    if (options.task != recipes::Task::kBinary) continue;
    append(output, part.scores);
    append(tensors.target, part.labels);
  }
  return part;
}

// Gathers the values of all ranks on all ranks, in the order of ranks, as a sum of vectors in which
// each rank has filled in its own part. `begin` is the index of this rank's part, `size` the number
// of all values.
std::vector<double> gathered(Trainer& trainer, const std::vector<double>& own, std::size_t begin,
                             std::size_t size) {
  constexpr std::size_t kChunk = 65536;
  std::vector<double> all;
  all.reserve(size);
  for (std::size_t at = 0; at < size; at += kChunk) {
    std::vector<double> chunk(std::min(kChunk, size - at), 0.0);
    const std::size_t first = std::max(at, begin);
    const std::size_t end = std::min(at + chunk.size(), begin + own.size());
    for (std::size_t i = first; i < end; ++i) chunk[i - at] = own[i - begin];
    chunk = trainer.sum(std::move(chunk));
    all.insert(all.end(), chunk.begin(), chunk.end());
  }
  return all;
}

// Sums the counts of all ranks. A rank without samples has none.
std::vector<double> summed_counts(Trainer& trainer, std::vector<double> counts) {
  const auto own = static_cast<double>(counts.size());
  std::vector<double> sizes = trainer.sum({own, own > 0 ? 1.0 : 0.0});
  if (sizes[1] == 0) return {};
  counts.resize(static_cast<std::size_t>(sizes[0] / sizes[1]));
  return trainer.sum(std::move(counts));
}

std::optional<double> auc_of(const EvaluatorPlace& here, Trainer& trainer, const ScoredPart& part) {
  std::vector<double> counts(static_cast<std::size_t>(here.workers), 0.0);
  const auto place = static_cast<std::size_t>(here.place);
  counts[place] = static_cast<double>(part.scores.size());
  counts = trainer.sum(std::move(counts));
  std::size_t begin = 0;
  std::size_t size = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i == place) begin = size;
    size += static_cast<std::size_t>(counts[i]);
  }
  const std::vector<double> scores = gathered(trainer, part.scores, begin, size);
  const std::vector<double> labels = gathered(trainer, part.labels, begin, size);
  return auc(scores, std::vector<std::uint8_t>(labels.begin(), labels.end()));
}

Score score_of(recipes::Task task, const ScoredPart& part, const data::Dataset& dataset) {
  const recipes::Judgement& sums = part.all;
  Score score{.loss = sums.loss / sums.predictions};
  if (recipes::has_accuracy(task)) {
    score.accuracy = sums.correct / sums.predictions;
    add_labels(part.counts, score);
  }
  if (task == recipes::Task::kRegression)
    add_regression({.squared_errors = sums.loss,
                    .targets = part.targets,
                    .squared_targets = part.squared_targets,
                    .samples = sums.predictions},
                   dataset.preprocessing().target_scale.deviation, score);
  return score;
}

}  // namespace

Score evaluate_alone(recipes::Model& model, const data::Dataset& dataset, recipes::Task task,
                     std::uint64_t batch, const at::Device& device) {
  const ScoredPart part = judge_part(model, dataset, {.task = task, .batch = batch}, device);
  Score score = score_of(task, part, dataset);
  if (task == recipes::Task::kBinary)
    score.auc = auc(part.scores, std::vector<std::uint8_t>(part.labels.begin(), part.labels.end()));
  return score;
}

Score evaluate(const EvaluatorPlace& here, Trainer& trainer, recipes::Model& model,
               const Preparation& prepared, const TrainOptions& options, const at::Device& device) {
  trainer.synchronise_buffers();
  model.eval();
  const ScoredPart part = judge_part(
      model, *prepared.test,
      {.task = prepared.task,
       .batch = options.batch,
       .loader_threads = options.loader_threads,
       .precision = options.precision,
       .channels_last = has_channels_last(options.channels_last, prepared.has_convolutions, device),
       .rank = here.place,
       .workers = here.workers},
      device);
  model.train();
  const recipes::Judgement& own = part.all;
  const std::vector<double> sums =
      trainer.sum({own.loss, own.correct, own.predictions, part.targets, part.squared_targets});
  Score score = score_of(prepared.task,
                         {.all = {sums[0], sums[1], sums[2]},
                          .targets = sums[3],
                          .squared_targets = sums[4],
                          .counts = summed_counts(trainer, part.counts),
                          .scores = {},
                          .labels = {}},
                         *prepared.test);
  if (prepared.task == recipes::Task::kBinary) score.auc = auc_of(here, trainer, part);
  return score;
}

}  // namespace tally::app
