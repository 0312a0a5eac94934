#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "bench/common/statistics.h"
#include "bench/word2vec/comparison.h"

namespace tally::bench {
namespace {

using Figure = std::function<double(const Word2vecRun&)>;

std::vector<double> figures(const std::vector<Word2vecRun>& runs, const Figure& figure) {
  std::vector<double> values;
  for (const Word2vecRun& run : runs) values.push_back(figure(run));
  return values;
}

double percent(const word2vec::Score& score) {
  return score.asked > 0
             ? 100 * static_cast<double>(score.correct) / static_cast<double>(score.asked)
             : 0;
}

// Returns "8.9 % (8.7 to 9.1)": median and range of all runs.
std::string range_text(const std::vector<double>& values, int digits, std::string_view unit) {
  return fmt::format("{0:.{3}f}{4} ({1:.{3}f} to {2:.{3}f})", median(values), quantile(values, 0),
                     quantile(values, 1), digits, unit);
}

std::string program_text(std::string_view name, const std::vector<Word2vecRun>& runs) {
  const auto speed = figures(runs, [](const Word2vecRun& r) { return r.words_per_s / 1e3; });
  const auto whole = figures(runs, [](const Word2vecRun& r) { return r.program_s; });
  const auto computed = figures(runs, [](const Word2vecRun& r) { return r.processor_s; });
  std::string text = fmt::format("{:<9} {} thousand words/s\n", name, range_text(speed, 0, ""));
  text += fmt::format("          whole program {} s; processor time {} s\n",
                      range_text(whole, 1, ""), range_text(computed, 1, ""));
  if (runs.front().analogies) {
    const auto total =
        figures(runs, [](const Word2vecRun& r) { return percent(r.analogies->total); });
    const auto semantic =
        figures(runs, [](const Word2vecRun& r) { return percent(r.analogies->semantic); });
    const auto syntactic =
        figures(runs, [](const Word2vecRun& r) { return percent(r.analogies->syntactic); });
    text += fmt::format("          analogies {} of {}; semantic {}, syntactic {}\n",
                        range_text(total, 1, " %"), runs.front().analogies->total.asked,
                        range_text(semantic, 1, " %"), range_text(syntactic, 1, " %"));
  }
  if (runs.front().similarity) {
    const auto rank = figures(runs, [](const Word2vecRun& r) { return r.similarity->correlation; });
    text += fmt::format("          similarity {}, {}/{} pairs found\n", range_text(rank, 3, ""),
                        runs.front().similarity->found, runs.front().similarity->total);
  }
  return text;
}

}  // namespace

std::string comparison_text(const Word2vecComparison& comparison) {
  std::string text;
  if (comparison.tally.empty()) return text;
  text += program_text("tally", comparison.tally);
  if (comparison.fasttext.empty()) return text;
  text += program_text("fasttext", comparison.fasttext);
  std::vector<double> speeds, computed;
  for (std::size_t i = 0; i < comparison.tally.size() && i < comparison.fasttext.size(); ++i) {
    speeds.push_back(comparison.tally[i].words_per_s / comparison.fasttext[i].words_per_s);
    computed.push_back(comparison.fasttext[i].processor_s /
                       std::max(comparison.tally[i].processor_s, 1e-9));
  }
  text +=
      fmt::format("          fasttext computes {} times as long\n", range_text(computed, 2, ""));
  return text + fmt::format("ratio     {} times fasttext's words/s, median of {} rounds\n",
                            range_text(speeds, 2, ""), speeds.size());
}

}  // namespace tally::bench
