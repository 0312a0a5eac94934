#include "sim/formula.h"

#include <bit>
#include <cmath>

#include "base/errors.h"

namespace tally::sim {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Result<Formula> formula(Algorithm algorithm, int ranks, std::size_t bytes, const Model& model) {
  const double n = ranks;
  const auto m = static_cast<double>(bytes);
  const double a = seconds(model.network.latency);
  const double b = model.network.bytes_per_second;
  const double g = model.reduce_seconds_per_byte;
  const auto in = [&](double time, std::string text, std::string_view adding) {
    if (g > 0) text += adding;
    return Formula{.text = std::move(text), .time = Duration(std::llround(time * 1e9))};
  };
  if (ranks < 1) return invalid("no ranks");
  const auto unsigned_ranks = static_cast<unsigned>(ranks);
  switch (algorithm) {
    case Algorithm::kRing:
      return in(2 * (n - 1) * (a + m / (n * b)) + (n - 1) / n * m * g, "2(N-1)(a + M/(N B))",
                " + (N-1)/N M g");
    case Algorithm::kHalvingDoubling: {
      const double p = std::bit_floor(unsigned_ranks);
      const double core = 2 * std::log2(p) * a + (p - 1) / p * m * (2 / b + g);
      if (p == n) return in(core, "2 log2(N) a + 2(N-1)/N M/B", " + (N-1)/N M g");
      return in(core + 2 * (a + m / b) + m * g, "2(log2(P)+1) a + 2(2P-1)/P M/B",
                " + (2P-1)/P M g");
    }
    case Algorithm::kTree: {
      const double height = std::bit_width(unsigned_ranks - 1);
      return in(height * (2 * (a + m / b) + m * g), "2h(a + M/B)", " + h M g");
    }
    case Algorithm::kHierarchical: {
      if (model.local_ranks < 1 || ranks % model.local_ranks != 0) {
        return invalid("the ranks do not fill their hosts");
      }
      const double l = model.local_ranks;
      const double k = n / l;
      const double inside =
          2 * (l - 1) * (seconds(model.local.latency) + m / (l * model.local.bytes_per_second));
      const double across = 2 * (k - 1) * (a + m / (n * b));
      return in(inside + across + ((l - 1) / l + (k - 1) / n) * m * g,
                "2(L-1)(a' + M/(L B')) + 2(K-1)(a + M/(N B))", " + ((L-1)/L + (K-1)/N) M g");
    }
    default:
      return invalid("no formula for this algorithm");
  }
}

}  // namespace tally::sim
