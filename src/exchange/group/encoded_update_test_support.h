#pragma once
// Support for tests of updates with a codec: a model, its gradients, and one update in plain loops.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/encoder/encoder.h"
#include "codec/lowrank/powersgd.h"
#include "collective/test_jobs.h"
#include "exchange/group/group_update.h"
#include "exchange/lane/codec_groups.h"
#include "exchange/lane/codec_state.h"
#include "kernel/array/weighted_sum.h"
#include "optimizer/update_rule.h"
#include "soon.h"

namespace tally::exchange {

using Values = std::vector<std::vector<float>>;  // by parameter

inline plan::CodecSpec spec_of(const std::string& text) {
  auto spec = plan::parse_codec(text);
  EXPECT_TRUE(spec.has_value()) << text << ": " << (spec ? "" : to_string(spec.error()));
  return spec ? *spec : plan::CodecSpec{};
}

// Matrices of one run and of several runs, matrices that are too small for codecs, and vectors.
inline GroupUpdate::Options encoded_model(const std::string& codec,
                                          const OptimizerSpec& optimizer) {
  GroupUpdate::Options options{.bucket_bytes = 64 << 10, .codec = spec_of(codec), .seed = 7};
  const std::vector<std::vector<std::int64_t>> shapes = {{17},   {40, 50}, {270, 500}, {3, 5},
                                                         {1500}, {8, 300}, {12, 7, 20}};
  for (const auto& shape : shapes)
    options.parameters.push_back(
        {.name = fmt::format("p{}", options.parameters.size()), .shape = shape});
  options.parameters[1].group = 1;
  OptimizerSpec other = optimizer;
  other.rate *= 0.5;
  auto groups = split_groups(options.codec, {optimizer, other}, options.parameters);
  EXPECT_TRUE(groups.has_value()) << codec << ": " << (groups ? "" : to_string(groups.error()));
  if (!groups) return options;
  options.optimizers = groups->optimizers;
  options.senders = groups->senders;
  return options;
}

inline float gradient_value(std::size_t parameter, std::size_t i, int step, Rank rank) {
  Rng rng(parameter * 7919 + i * 31 + static_cast<std::size_t>(step) * 1000003 +
          static_cast<std::size_t>(rank) * 17);
  const auto value = static_cast<float>(rng.uniform() - 0.45);
  return value * value * value;
}

// The steps of a test: the samples of each rank, and the parameters that it has gradients for.
struct Course {
  int steps = 4;
  std::function<double(Rank, int)> samples = [](Rank rank, int step) {
    return 8.0 + 3 * rank + step % 2;
  };
  std::function<bool(std::size_t, Rank, int)> has = [](std::size_t, Rank, int) { return true; };
};

inline Values initial_values(const GroupUpdate::Options& options) {
  Values values;
  for (std::size_t p = 0; p < options.parameters.size(); ++p) {
    values.emplace_back(options.parameters[p].count());
    for (std::size_t i = 0; i < values[p].size(); ++i) values[p][i] = gradient_value(p, i, -1, 99);
  }
  return values;
}

// Updates as docs/codecs.md describes them, computed in one place for all senders: parameters are
// cut only into runs.
class SlowRecipe {
 public:
  // units[u]: the ranks of sender u.
  SlowRecipe(const GroupUpdate::Options& options, std::vector<std::vector<Rank>> units)
      : options_(options), units_(std::move(units)), values_(initial_values(options)) {
    state_.resize(2, values_);
    for (auto& array : state_)
      for (std::size_t p = 0; p < array.size(); ++p)
        std::fill(array[p].begin(), array[p].end(),
                  static_cast<float>(optimizer::initial_state(optimizer_of(p))));
    updates_of_.resize(values_.size());
    for (std::size_t p = 0; p < values_.size(); ++p) parts_.push_back(make_part(p));
  }

  void run(const Course& course) {
    for (int step = 0; step < course.steps; ++step) update(course, step);
  }
  const Values& values() const { return values_; }

 private:
  struct Part {
    // By run.
    std::vector<std::unique_ptr<codec::Codec>> there;
    std::vector<codec::BroadcastCodec> back;
    // By run, then by sender.
    std::vector<std::vector<std::unique_ptr<codec::Encoder>>> encoders;
    std::vector<float> back_residual;
    std::vector<std::unique_ptr<codec::PowerSgd>> matrices;  // by sender
  };

  const OptimizerSpec& optimizer_of(std::size_t p) const {
    return options_.optimizers[options_.parameters[p].group];
  }
  plan::CodecSpec spec(std::size_t p) const {
    return is_compressed(options_.codec, options_.parameters[p]) ? options_.codec
                                                                 : plan::CodecSpec{};
  }

  Part make_part(std::size_t p) const {
    Part part;
    const ParameterInfo& info = options_.parameters[p];
    if (spec(p).kind == plan::Codec::kPowersgd) {
      for (std::size_t u = 0; u < units_.size(); ++u)
        part.matrices.push_back(std::make_unique<codec::PowerSgd>(codec::PowerSgd::Options{
            .rows = static_cast<std::size_t>(info.shape[0]),
            .columns = info.count() / static_cast<std::size_t>(info.shape[0]),
            .rank = spec(p).rank,
            .seed = factor_seed(options_.seed, first_element_of(options_.parameters, p))}));
      return part;
    }
    part.back_residual.resize(info.count());
    codec::SenderFacts facts = options_.senders[info.group];
    facts.ranks = static_cast<int>(units_.size());
    for (std::size_t first = 0; first < info.count(); first += codec::kRunElements) {
      part.there.push_back(codec::make_codec(spec(p), codec::shape_of(info.shape, first)));
      part.back.push_back(codec::make_broadcast_codec(spec(p), codec::shape_of(info.shape, first)));
      part.encoders.emplace_back();
      for (std::size_t u = 0; u < units_.size(); ++u)
        part.encoders.back().push_back(
            codec::Encoder::make(spec(p), *part.there.back(),
                                 std::min(codec::kRunElements, info.count() - first), facts));
    }
    return part;
  }

  // Writes a sender's mean; returns the samples behind it.
  double mean_of_unit(const Course& course, int step, std::size_t unit, std::size_t p,
                      std::vector<float>& mean) const {
    Values gradients;
    std::vector<const void*> inputs;
    std::vector<float> weights;
    double total = 0;
    for (const Rank rank : units_[unit]) total += course.samples(rank, step);
    for (const Rank rank : units_[unit]) {
      std::vector<float> gradient(mean.size());
      if (course.has(p, rank, step))
        for (std::size_t i = 0; i < mean.size(); ++i)
          gradient[i] = gradient_value(p, i, step, rank);
      gradients.push_back(std::move(gradient));
      weights.push_back(total > 0 ? static_cast<float>(course.samples(rank, step) / total) : 0.0F);
    }
    for (const auto& gradient : gradients) inputs.push_back(gradient.data());
    kernel::weighted_sum_reference(DataType::kFloat32, inputs, weights, mean.data(), mean.size());
    return total;
  }

  void update(const Course& course, int step) {
    for (std::size_t p = 0; p < values_.size(); ++p) {
      bool used = false;
      for (const auto& unit : units_)
        for (const Rank rank : unit)
          used = used || (course.samples(rank, step) > 0 && course.has(p, rank, step));
      if (!used) continue;
      Values means(units_.size(), std::vector<float>(values_[p].size()));
      std::vector<double> weights;
      for (std::size_t u = 0; u < units_.size(); ++u)
        weights.push_back(mean_of_unit(course, step, u, p, means[u]));
      std::vector<float> average(values_[p].size());
      if (!parts_[p].matrices.empty() && codec::is_plain_at(spec(p), updates_)) {
        average = weighted_mean(means, weights);
      } else if (!parts_[p].matrices.empty()) {
        by_factors(parts_[p], means, weights, average);
      } else {
        for (std::size_t run = 0; run < parts_[p].encoders.size(); ++run)
          by_run(p, run, means, weights, average);
      }
      const optimizer::Segment<float> segment{
          .parameters = values_[p], .gradient = average, .state = {state_[0][p], state_[1][p]}};
      ++updates_of_[p];
      const std::uint64_t number = optimizer_of(p).freeze_after > 0 ? updates_ + 1 : updates_of_[p];
      optimizer::update(optimizer_of(p), {.step = number, .rate = optimizer_of(p).rate}, segment);
    }
    ++updates_;
  }

  void by_run(std::size_t p, std::size_t run, const Values& means,
              const std::vector<double>& weights, std::vector<float>& average) {
    Part& part = parts_[p];
    const std::size_t first = run * codec::kRunElements;
    const std::size_t count = std::min(codec::kRunElements, average.size() - first);
    codec::Draw draw{.seed = options_.seed,
                     .step = updates_,
                     .first = first_element_of(options_.parameters, p) + first};
    const bool plain = spec(p).kind == plan::Codec::kNone;
    const codec::Codec& there = codec::codec_at(spec(p), *part.there[run], updates_);
    std::vector<std::vector<std::byte>> bytes;
    std::vector<codec::Encoded> encoded;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      codec::Encoder& encoder = *part.encoders[run][u];
      bytes.emplace_back(std::max(encoder.max_bytes(), there.max_bytes(count)));
      draw.rank = static_cast<std::uint32_t>(u);
      const auto mean = std::span(means[u]).subspan(first, count);
      if (weights[u] > 0)
        bytes.back().resize(plain ? there.encode(mean, draw, bytes.back())
                                  : encoder.encode(mean, draw, bytes.back()));
    }
    for (std::size_t u = 0; u < units_.size(); ++u)
      encoded.push_back({.bytes = bytes[u], .weight = weights[u]});
    std::vector<float> mean(count);
    const plan::CodecSpec now = codec::is_plain_at(spec(p), updates_) ? plan::CodecSpec() : spec(p);
    ASSERT_TRUE(codec::mean_of(now, there, encoded, mean).has_value());
    const auto residual = std::span(part.back_residual).subspan(first, count);
    for (std::size_t i = 0; part.back[run].feedback && i < count; ++i) mean[i] += residual[i];
    draw.rank = 0xFFFFFFFF;
    const codec::Codec& back = codec::codec_at(spec(p), *part.back[run].codec, updates_);
    std::vector<std::byte> answer(back.max_bytes(count));
    answer.resize(back.encode(mean, draw, answer));
    const auto out = std::span(average).subspan(first, count);
    ASSERT_TRUE(back.decode(answer, out).has_value());
    for (std::size_t i = 0; part.back[run].feedback && i < count; ++i)
      residual[i] = std::isfinite(mean[i] - out[i]) ? mean[i] - out[i] : 0;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      draw.rank = static_cast<std::uint32_t>(u);
      part.encoders[run][u]->observe_mean(out, draw);
    }
  }

  static std::vector<float> weighted_mean(const Values& all, const std::vector<double>& weights) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<float> sum(all[0].size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      double value = 0;
      for (std::size_t u = 0; u < all.size(); ++u) value += weights[u] / total * all[u][i];
      sum[i] = static_cast<float>(value);
    }
    return sum;
  }

  // All senders must have samples.
  static void by_factors(Part& part, const Values& means, const std::vector<double>& weights,
                         std::vector<float>& average) {
    const auto weighted = [&](const Values& all) { return weighted_mean(all, weights); };
    Values left;
    Values right;
    for (std::size_t u = 0; u < means.size(); ++u) {
      left.emplace_back(part.matrices[u]->p_count());
      part.matrices[u]->project(means[u], left.back());
    }
    const std::vector<float> mean_left = weighted(left);
    std::vector<float> p;
    for (std::size_t u = 0; u < means.size(); ++u) {
      p = mean_left;
      right.emplace_back(part.matrices[u]->q_count());
      part.matrices[u]->correlate(p, right.back());
    }
    const std::vector<float> q = weighted(right);
    for (const auto& matrix : part.matrices) matrix->finish(p, q, average);
  }

  const GroupUpdate::Options options_;
  const std::vector<std::vector<Rank>> units_;
  Values values_;
  std::vector<Values> state_;
  std::vector<Part> parts_;
  std::vector<std::uint64_t> updates_of_;
  std::uint64_t updates_ = 0;
};

inline std::unique_ptr<GroupUpdate> make_update(Job& job, const GroupUpdate::Options& options) {
  auto made = GroupUpdate::make(job.world(), options, soon());
  EXPECT_TRUE(made.has_value()) << to_string(made.error());
  if (!made) return nullptr;
  const Values initial = initial_values(options);
  if ((*made)->writes_values())
    for (std::size_t p = 0; p < initial.size(); ++p)
      std::memcpy((*made)->values(p).data(), initial[p].data(), (*made)->values(p).size());
  EXPECT_TRUE((*made)->spread_values(soon()).has_value());
  return std::move(*made);
}

// Takes part in the steps [from, course.steps) as one rank. Parameters become ready last to first.
// Gradients that the rank does not have are NaN.
inline void take_steps(Job& job, GroupUpdate& update, const Course& course, int from = 0) {
  for (int step = from; step < course.steps; ++step) {
    const double samples = course.samples(job.rank(), step);
    const StepContribution contribution{.samples = samples, .weight = samples};
    if (samples > 0) {
      ASSERT_TRUE(update.begin(contribution).has_value());
    }
    for (std::size_t p = update.parameters().size(); p-- > 0;) {
      auto* const gradient = reinterpret_cast<float*>(update.gradient(p).data());
      const bool has = samples > 0 && course.has(p, job.rank(), step);
      for (std::size_t i = 0; i < update.parameters()[p].count(); ++i)
        gradient[i] =
            has ? gradient_value(p, i, step, job.rank()) : std::numeric_limits<float>::quiet_NaN();
      if (!has) continue;
      const auto ready = update.ready(p);
      ASSERT_TRUE(ready.has_value()) << to_string(ready.error());
    }
    const auto totals = update.complete(contribution, {});
    ASSERT_TRUE(totals.has_value()) << to_string(totals.error());
  }
}

inline Values values_in(const GroupUpdate& update) {
  Values values;
  for (std::size_t p = 0; p < update.parameters().size(); ++p) {
    values.emplace_back(update.parameters()[p].count());
    std::memcpy(values[p].data(), update.values(p).data(), update.values(p).size());
  }
  return values;
}

// The final values of each rank.
inline std::vector<Values> train(collective::Network network, int ranks,
                                 const GroupUpdate::Options& options, const Course& course) {
  std::vector<Values> results(static_cast<std::size_t>(ranks));
  collective::run_ranks(network, ranks, [&](Job& job) {
    const auto update = make_update(job, options);
    if (update) take_steps(job, *update, course);
    if (update) results[static_cast<std::size_t>(job.rank())] = values_in(*update);
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  return results;
}

inline double largest_difference(const Values& a, const Values& b) {
  double largest = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t p = 0; p < std::min(a.size(), b.size()); ++p)
    for (std::size_t i = 0; i < a[p].size(); ++i) {
      const double difference = std::abs(static_cast<double>(a[p][i]) - b[p][i]);
      if (!(difference <= largest)) largest = difference;
    }
  return largest;
}

// Every rank is a sender.
inline std::vector<std::vector<Rank>> single(int ranks) {
  std::vector<std::vector<Rank>> units;
  for (Rank rank = 0; rank < ranks; ++rank) units.push_back({rank});
  return units;
}

}  // namespace tally::exchange
