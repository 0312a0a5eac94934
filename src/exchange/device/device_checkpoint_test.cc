#include <gtest/gtest.h>

#include <cctype>
#include <map>

#include "base/mutex.h"
#include "checkpoint/test_content.h"
#include "exchange/device/device_exchange_test_support.h"
#include "exchange/group/group_exchange.h"
#include "exchange/saved_model.h"
#include "kernel/reduce/reduce.h"
#include "tally/checkpoint.h"

// Checkpoints of exchanges over devices, in files: with replicated and sharded state, and from and
// to a group in host memory.
namespace tally::exchange {
namespace {

using collective::Network;
using collective::run_ranks;

enum class Place { kGroup, kReplicated, kSharded };

struct Training {
  Place place = Place::kReplicated;
  int ranks = 3;
};

// One parameter is of bfloat16, with a master copy.
GroupUpdate::Options saved_options(const std::string& codec) {
  const bool has_momentum = codec.starts_with("sign") || codec.starts_with("topk");
  auto options = encoded_model(
      codec, has_momentum ? sgd({.rate = 0.1, .momentum = 0.9}) : adam({.rate = 0.01}));
  options.parameters[5].type = DataType::kBFloat16;
  return options;
}

const std::vector<const char*> kSavedCodecs = {"none", "int8", "sign:momentum=early", "topk:0.05",
                                               "powersgd:2"};

TrainedModel model_of(const GroupUpdate::Options& options) {
  return {options.parameters, options.optimizers, options.codec};
}

std::unique_ptr<Exchange> make_exchange_at(Job& job, const GroupUpdate::Options& options,
                                           Place place) {
  const auto initial = [&](std::size_t p, std::span<std::byte> values) {
    const std::vector<float> all = initial_values(options)[p];
    if (options.parameters[p].type == DataType::kFloat32)
      std::memcpy(values.data(), all.data(), values.size());
    else
      kernel::kernels().narrow(options.parameters[p].type, all.data(), values.data(), all.size());
  };
  if (place == Place::kGroup) {
    policy::Rules rules;
    rules.workers = job.size();
    auto made = GroupExchange::make(
        job.world(), {.update = options, .rules = rules, .initial = initial}, soon());
    EXPECT_TRUE(made.has_value()) << to_string(made.error());
    return made ? std::move(*made) : nullptr;
  }
  auto made = DeviceExchange::make(job.world(),
                                   {.update = options,
                                    .device = host_device(),
                                    .make_sum = host_sum_maker(),
                                    .shards_state = place == Place::kSharded,
                                    .initial = initial},
                                   soon());
  EXPECT_TRUE(made.has_value()) << to_string(made.error());
  return made ? std::move(*made) : nullptr;
}

Result<void> take_step(Exchange& exchange, const GroupUpdate::Options& options, Rank rank,
                       int step) {
  std::vector<double> rates;
  for (const OptimizerSpec& spec : options.optimizers) rates.push_back(spec.rate);
  const double samples = 8.0 + 3 * rank;
  const StepContribution contribution{.samples = samples, .weight = samples, .rates = rates};
  TALLY_TRY(exchange.begin());
  TALLY_TRY(exchange.announce(contribution));
  std::vector<std::vector<std::byte>> gradients(options.parameters.size());
  for (std::size_t p = gradients.size(); p-- > 0;) {
    const ParameterInfo& info = options.parameters[p];
    std::vector<float> gradient;
    for (std::size_t i = 0; i < info.count(); ++i)
      gradient.push_back(gradient_value(p, i, step, rank));
    gradients[p].resize(info.count() * size_of(info.type));
    if (info.type == DataType::kFloat32)
      std::memcpy(gradients[p].data(), gradient.data(), gradients[p].size());
    else
      kernel::kernels().narrow(info.type, gradient.data(), gradients[p].data(), gradient.size());
    if (exchange.on_device()) {
      TALLY_TRY(exchange.ready(p, gradients[p].data()));
    } else {
      std::memcpy(exchange.gradient(p).data(), gradients[p].data(), gradients[p].size());
      TALLY_TRY(exchange.ready(p));
    }
  }
  TALLY_TRY(exchange.complete(contribution));
  return {};
}

std::vector<checkpoint::TensorInfo> tensors_of(const GroupUpdate::Options& options) {
  std::vector<checkpoint::TensorInfo> tensors;
  for (const ParameterInfo& info : options.parameters)
    tensors.push_back({.name = info.name, .type = info.type, .shape = info.shape});
  return tensors;
}

// Saves the exchanges of all ranks; returns the progress. Collective.
SavedCourse save(Job& job, Exchange& exchange, const GroupUpdate::Options& options,
                 const std::filesystem::path& folder) {
  auto writer = checkpoint::Writer::make(job.world(), {.folder = folder});
  EXPECT_TRUE(writer.has_value());
  checkpoint::Content content{.step = exchange.steps(), .tensors = tensors_of(options)};
  EXPECT_TRUE(add_states(model_of(options), exchange.checkpoint(), content).has_value());
  if (job.rank() == 0) content.state = "{}";
  EXPECT_TRUE((*writer)->save(content).has_value());
  const auto saved = (*writer)->wait(soon());
  EXPECT_TRUE(saved.has_value()) << to_string(saved.error());
  return exchange.checkpoint().course();
}

using Contents = std::map<std::string, std::vector<std::byte>>;  // by tensor

Contents contents_of(const std::filesystem::path& folder, const GroupUpdate::Options& options) {
  const auto reader = checkpoint::Reader::open(folder / "step-0000000003");
  EXPECT_TRUE(reader.has_value());
  Contents all;
  const auto room = [](const checkpoint::TensorInfo& info) {
    std::size_t bytes = size_of(info.type);
    for (const std::int64_t extent : info.shape) bytes *= static_cast<std::size_t>(extent);
    return std::vector<std::byte>(bytes);
  };
  EXPECT_TRUE(check_fits(model_of(options), tensors_of(options), **reader).has_value());
  for (const auto& info : (*reader)->tensors()) {
    all[info.name] = room(info);
    EXPECT_TRUE((*reader)->read(info.name, 0, all[info.name]).has_value());
  }
  for (const auto& info : (*reader)->state_tensors()) {
    all[info.name] = room(info);
    EXPECT_TRUE((*reader)->read_state(info.name, 0, all[info.name]).has_value());
  }
  return all;
}

// Takes the codec state of senders, NAME.0 and so on, out of `all`: its means by NAME.
std::map<std::string, std::vector<double>> take_means(Contents& all) {
  std::map<std::string, std::pair<std::vector<double>, int>> sums;
  for (auto each = all.begin(); each != all.end();) {
    const std::size_t dot = each->first.rfind('.');
    const bool is_of_sender = is_codec_tensor(each->first) && dot + 1 < each->first.size() &&
                              std::isdigit(static_cast<unsigned char>(each->first[dot + 1])) != 0;
    if (!is_of_sender) {
      ++each;
      continue;
    }
    auto& [sum, senders] = sums[each->first.substr(0, dot)];
    std::vector<float> values(each->second.size() / sizeof(float));
    std::memcpy(values.data(), each->second.data(), each->second.size());
    sum.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
    ++senders;
    each = all.erase(each);
  }
  std::map<std::string, std::vector<double>> means;
  for (const auto& [name, sum] : sums)
    for (const double value : sum.first) means[name].push_back(value / sum.second);
  return means;
}

// Equal but for the number of senders.
void expect_equal_means(Contents a, Contents b) {
  const auto means = take_means(a);
  const auto others = take_means(b);
  EXPECT_TRUE(a == b);
  ASSERT_EQ(means.size(), others.size());
  for (const auto& [name, mean] : means) {
    const auto found = others.find(name);
    ASSERT_TRUE(found != others.end() && found->second.size() == mean.size()) << name;
    for (std::size_t i = 0; i < mean.size(); ++i)
      ASSERT_NEAR(found->second[i], mean[i], 1e-6) << name;
  }
}

// Trains for three steps at one place and saves, restores at another place and saves again: both
// checkpoints must be equal, and the training must go on.
void move(const GroupUpdate::Options& options, const Training& from, const Training& to) {
  const checkpoint::TestFolder first;
  const checkpoint::TestFolder second;
  SavedCourse course;
  run_ranks(Network::kInProcess, from.ranks, [&](Job& job) {
    const auto exchange = make_exchange_at(job, options, from.place);
    for (int step = 0; step < 3; ++step)
      ASSERT_TRUE(take_step(*exchange, options, job.rank(), step).has_value());
    const SavedCourse saved = save(job, *exchange, options, first.path());
    if (job.rank() == 0) course = saved;
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  run_ranks(Network::kInProcess, to.ranks, [&](Job& job) {
    const auto exchange = make_exchange_at(job, options, to.place);
    const auto reader = checkpoint::Reader::open(first.path() / "step-0000000003");
    ASSERT_TRUE(reader.has_value());
    const auto restored =
        restore_states(model_of(options), exchange->checkpoint(), **reader, course);
    ASSERT_TRUE(restored.has_value()) << to_string(restored.error());
    EXPECT_EQ(exchange->steps(), 3U);
    const SavedCourse saved = save(job, *exchange, options, second.path());
    EXPECT_EQ(saved.order, course.order);
    EXPECT_EQ(saved.parameter_steps, course.parameter_steps);
    ASSERT_TRUE(take_step(*exchange, options, job.rank(), 3).has_value());
    EXPECT_EQ(exchange->steps(), 4U);
    EXPECT_TRUE(job.world().barrier().has_value());
  });
  SCOPED_TRACE(testing::Message() << plan::to_string(options.codec) << ": from "
                                  << static_cast<int>(from.place) << " to "
                                  << static_cast<int>(to.place) << " with " << to.ranks
                                  << " ranks");
  const Contents before = contents_of(first.path(), options);
  const Contents after = contents_of(second.path(), options);
  if (from.ranks == to.ranks)
    EXPECT_TRUE(before == after);
  else
    expect_equal_means(before, after);
}

TEST(DeviceCheckpoint, MovesBetweenDevicesAndHostMemory) {
  const std::vector<Place> places = {Place::kGroup, Place::kReplicated, Place::kSharded};
  for (const char* const codec : kSavedCodecs)
    for (const Place from : places)
      for (const Place to : places)
        if (from != Place::kGroup || to != Place::kGroup)
          move(saved_options(codec), {from, 3}, {to, 3});
}

TEST(DeviceCheckpoint, MovesToAnotherNumberOfRanks) {
  const std::vector<Place> places = {Place::kGroup, Place::kReplicated, Place::kSharded};
  for (const char* const codec : {"none", "sign", "powersgd:2"})
    for (const Place place : places)
      for (const int ranks : {1, 2, 4}) {
        move(saved_options(codec), {place, 3}, {Place::kReplicated, ranks});
        move(saved_options(codec), {Place::kReplicated, 3}, {place, ranks});
      }
}

// The restored exchange continues with the bits of one that was not interrupted.
TEST(DeviceCheckpoint, ContinuesBitForBit) {
  for (const char* const codec : kSavedCodecs)
    for (const Place place : {Place::kReplicated, Place::kSharded}) {
      const auto options = saved_options(codec);
      run_ranks(Network::kInProcess, 3, [&](Job& job) {
        checkpoint::TestFolder folder;  // that of rank 0 is used
        std::string path = folder.path().string();
        path.resize(256, '\0');
        ASSERT_TRUE(job.world()
                        .broadcast(std::span(reinterpret_cast<std::int8_t*>(path.data()), 256), 0)
                        .has_value());
        path.resize(path.find('\0'));
        const auto exchange = make_exchange_at(job, options, place);
        for (int step = 0; step < 3; ++step)
          ASSERT_TRUE(take_step(*exchange, options, job.rank(), step).has_value());
        const SavedCourse course = save(job, *exchange, options, path);
        ASSERT_TRUE(take_step(*exchange, options, job.rank(), 3).has_value());
        const auto values = [&] {
          std::vector<std::vector<std::byte>> all;
          for (std::size_t p = 0; p < options.parameters.size(); ++p) {
            const std::span<std::byte> bytes = exchange->values(p);
            all.emplace_back(bytes.begin(), bytes.end());
          }
          return all;
        };
        const auto expected = values();
        const auto reader =
            checkpoint::Reader::open(std::filesystem::path(path) / "step-0000000003");
        ASSERT_TRUE(reader.has_value());
        ASSERT_TRUE(restore_states(model_of(options), exchange->checkpoint(), **reader, course)
                        .has_value());
        ASSERT_TRUE(take_step(*exchange, options, job.rank(), 3).has_value());
        EXPECT_TRUE(values() == expected) << codec;
        ASSERT_TRUE(job.world().barrier().has_value());
      });
    }
}

}  // namespace
}  // namespace tally::exchange
