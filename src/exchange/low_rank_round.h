#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "codec/lowrank/powersgd.h"

namespace tally::exchange {

// The two rounds of powersgd for several gradients of senders with weights (see
// codec/lowrank/powersgd.h):
//
//   project -> left() is summed over all senders -> correlate -> right() is summed -> finish
//
// T is the type of the sums: float or double. Threads: calls must not overlap.
template <typename T>
class LowRankRound final {
 public:
  struct Item {
    codec::PowerSgd* matrix = nullptr;  // null: the gradient is summed as it is
    std::span<float> gradient;          // in: this sender's; out: the mean

    std::size_t left_count() const { return matrix ? matrix->p_count() : gradient.size(); }
    std::size_t right_count() const { return matrix ? matrix->q_count() : 0; }
  };
  struct Sender {
    double weight = 0;      // 0: its gradients are not read
    bool is_alone = false;  // skips the scaling by weights
    bool feedback = true;   // false: no residuals
  };

  // The first factor of each item, weighted; the last element is the weight.
  void project(std::vector<Item> items, const Sender& sender);
  std::span<T> left() { return left_; }
  // After the first sum.
  double total() const { return left_.back(); }

  // The second factors, weighted.
  void correlate();
  std::span<T> right() { return right_; }

  // Writes the means.
  void finish();
  // Ends the round without means: residuals keep the gradients.
  void give_up();
  // The factors of an item's mean.
  std::span<const float> left_factor(std::size_t item) const { return factors_[item].left; }
  std::span<const float> right_factor(std::size_t item) const { return factors_[item].right; }

 private:
  struct Factors {
    std::vector<float> left;
    std::vector<float> right;
  };
  double share() const { return total() > 0 && !sender_.is_alone ? 1 / total() : 1; }

  std::vector<Item> items_;
  Sender sender_;
  std::vector<T> left_;
  std::vector<T> right_;
  std::vector<Factors> factors_;  // by item
};

}  // namespace tally::exchange
