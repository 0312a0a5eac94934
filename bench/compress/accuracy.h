#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/compress/hosts.h"
#include "bench/compress/report.h"
#include "process/progress.h"
#include "tally/deadline.h"
#include "tally/error.h"

namespace tally::bench::compress {

// Options for measuring the effect of codecs on accuracy: `tally train RECIPE` on both hosts.
struct AccuracyOptions {
  std::string recipe = "lenet";
  std::string data = "fashion-mnist";
  std::vector<std::string> plans;  // the first is the baseline
  int workers = 4;                 // even: half of them on each host
  int epochs = 4;
  int seeds = 3;                  // seeds 1 to N
  std::vector<std::string> more;  // further words for `tally train`
  Duration training_timeout = std::chrono::minutes(30);
};

// All seeds of one plan.
struct Accuracy {
  std::string plan;
  std::vector<double> accuracies;  // at the end
  std::vector<double> elapsed_s;   // of the training
  std::vector<double> sent_bytes;  // by each host, the start of the job included
};

// Trains one plan after the other over the current link. The first failure ends it.
Result<std::vector<Accuracy>> train_all(const AccuracyOptions& options, Hosts& hosts,
                                        process::Progress& progress);

std::string accuracy_text(const AccuracyOptions& options, const std::vector<Accuracy>& results);
void write_accuracy_json(std::ostream& out, const AccuracyOptions& options,
                         const std::vector<Accuracy>& results, const ReportContext& context);

}  // namespace tally::bench::compress
