#include "exchange/low_rank_round.h"

#include <algorithm>
#include <utility>

namespace tally::exchange {
namespace {

// Copies the next values of `from` to `to`, times a factor, and returns the position after them.
template <typename From, typename To>
From* scaled(From* from, std::span<To> to, double factor) {
  const auto by = static_cast<std::common_type_t<From, To>>(factor);
  for (To& value : to) value = static_cast<To>(by * *from++);
  return from;
}

}  // namespace

template <typename T>
void LowRankRound<T>::project(std::vector<Item> items, const Sender& sender) {
  items_ = std::move(items);
  sender_ = sender;
  factors_.resize(items_.size());
  std::size_t count = 1;
  for (const Item& item : items_) count += item.left_count();
  left_.assign(count, T{0});
  left_.back() = static_cast<T>(sender.weight);
  if (sender.weight == 0) return;
  const double factor = sender.is_alone ? 1 : sender.weight;
  T* next = left_.data();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    std::span<float> own = item.gradient;
    if (item.matrix) {
      factors_[i].left.resize(item.left_count());
      own = factors_[i].left;
      item.matrix->project(item.gradient, own);
    }
    scaled(own.data(), std::span(next, own.size()), factor);
    next += own.size();
  }
}

template <typename T>
void LowRankRound<T>::correlate() {
  std::size_t count = 0;
  for (const Item& item : items_) count += item.right_count();
  right_.resize(count);
  const double factor = sender_.is_alone ? 1 : sender_.weight;
  const T* mean = left_.data();
  T* next = right_.data();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (!item.matrix) {
      mean = scaled(mean, item.gradient, share());
      continue;
    }
    Factors& factors = factors_[i];
    factors.left.resize(item.left_count());
    factors.right.resize(item.right_count());
    mean = scaled(mean, std::span(factors.left), share());
    item.matrix->correlate(factors.left, factors.right);
    scaled(factors.right.data(), std::span(next, factors.right.size()), factor);
    next += factors.right.size();
  }
}

template <typename T>
void LowRankRound<T>::finish() {
  const T* mean = right_.data();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (!item.matrix) continue;
    mean = scaled(mean, std::span(factors_[i].right), share());
    item.matrix->finish(factors_[i].left, factors_[i].right, item.gradient);
    const std::span<float> residual = item.matrix->residual();
    if (!sender_.feedback) std::fill(residual.begin(), residual.end(), 0.0F);
  }
}

template <typename T>
void LowRankRound<T>::give_up() {
  for (const Item& item : items_)
    if (item.matrix) item.matrix->give_up();
}

template class LowRankRound<float>;
template class LowRankRound<double>;

}  // namespace tally::exchange
