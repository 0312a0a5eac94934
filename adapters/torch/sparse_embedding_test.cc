// External rows against the parameter, and the parameter against plain indexing.
#include <gtest/gtest.h>

#include "tally/sparse.h"
#include "tally/torch.h"

namespace tally {
namespace {

constexpr SparseEmbeddingOptions kSmall{.dimension = 3, .rows = 50, .initial_scale = 0.5};

at::Tensor some_keys() {
  return at::tensor(std::vector<std::int64_t>{7, 3, -1, 7, 49, 0, 3, -1}, at::kLong).view({2, 4});
}

// Rows in memory, which start as the rows of another embedding's parameter.
class PlainRows final : public SparseEmbeddingImpl::Rows {
 public:
  explicit PlainRows(SparseEmbedding like) : like_(std::move(like)) {}
  void pull(std::span<const std::uint64_t> keys, std::span<float> rows) override {
    ++pulls;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(i == 0 || keys[i - 1] < keys[i]);
      const at::NoGradGuard no_grad;
      const at::Tensor row =
          like_->forward(at::full({1}, static_cast<std::int64_t>(keys[i]), at::kLong));
      std::copy_n(row.data_ptr<float>(), row.numel(),
                  rows.data() + i * static_cast<std::size_t>(row.numel()));
    }
  }
  int pulls = 0;

 private:
  SparseEmbedding like_;
};

// A loss in which every element has a different weight.
at::Tensor loss_of(const at::Tensor& rows) {
  const at::Tensor weights = at::arange(1, rows.numel() + 1, at::kFloat).view(rows.sizes());
  return (rows * weights + rows.square()).sum();
}

TEST(SparseEmbedding, RowsOfSmallKeysAreTheRowsOfTheWeight) {
  SparseEmbedding table(kSmall);
  const at::Tensor rows = table->forward(some_keys());
  EXPECT_EQ(rows.sizes(), (at::IntArrayRef{2, 4, 3}));
  EXPECT_TRUE(at::equal(rows[0][1], table->weight[3]));
  EXPECT_TRUE(at::equal(rows[1][0], table->weight[49]));
  EXPECT_EQ(rows[0][2].abs().sum().item<double>(), 0);
  // The gradient by plain indexing, without padding.
  loss_of(rows).backward();
  const at::Tensor plain = table->weight.detach().clone().requires_grad_();
  const at::Tensor index = some_keys().clamp_min(0).view({-1});
  const at::Tensor mask = some_keys().ge(0).view({-1, 1}).to(at::kFloat);
  loss_of((plain.index_select(0, index) * mask).view({2, 4, 3})).backward();
  EXPECT_TRUE(at::allclose(table->weight.grad(), plain.grad()));
}

TEST(SparseEmbedding, BeginsAlikeEverywhereAndBySeed) {
  const SparseEmbedding a(kSmall);
  const SparseEmbedding b(kSmall);
  SparseEmbeddingOptions other = kSmall;
  other.seed = 2;
  const SparseEmbedding c(other);
  EXPECT_TRUE(at::equal(a->weight, b->weight));
  EXPECT_FALSE(at::equal(a->weight, c->weight));
  EXPECT_LE(a->weight.abs().max().item<double>(), 0.5);
  EXPECT_GT(a->weight.abs().max().item<double>(), 0.4);
  EXPECT_LT(std::abs(a->weight.mean().item<double>()), 0.1);
}

TEST(SparseEmbedding, LargeKeysSpreadOverTheRows) {
  SparseEmbedding table(SparseEmbeddingOptions{.dimension = 1, .rows = 64});
  const at::Tensor keys = at::arange(1, 1001, at::kLong).mul(std::int64_t{1} << 40);
  table->forward(keys).sum().backward();
  EXPECT_GT(table->weight.grad().min().item<double>(), 0);
  EXPECT_LT(table->weight.grad().max().item<double>(), 40);
}

TEST(SparseEmbedding, AttachedRowsGiveTheSameOutputsAndGradients) {
  SparseEmbedding plain(kSmall);
  SparseEmbedding attached(kSmall);
  PlainRows rows(plain);
  attached->attach(&rows);
  EXPECT_TRUE(attached->parameters().empty());
  const at::Tensor expected = plain->forward(some_keys());
  const at::Tensor found = attached->forward(some_keys());
  EXPECT_TRUE(at::equal(expected, found));
  EXPECT_EQ(rows.pulls, 1);
  loss_of(expected).backward();
  loss_of(found).backward();
  const auto used = attached->take();
  EXPECT_EQ(used.keys, (std::vector<std::uint64_t>{0, 3, 7, 49}));
  for (std::size_t i = 0; i < used.keys.size(); ++i)
    EXPECT_TRUE(at::equal(used.gradient[static_cast<std::int64_t>(i)],
                          plain->weight.grad()[static_cast<std::int64_t>(used.keys[i])]));
  EXPECT_TRUE(attached->take().keys.empty());
}

TEST(SparseEmbedding, PassesSinceTheLastTakeAreSummed) {
  SparseEmbedding plain(kSmall);
  SparseEmbedding attached(kSmall);
  PlainRows rows(plain);
  attached->attach(&rows);
  const at::Tensor other = at::tensor(std::vector<std::int64_t>{3, 12}, at::kLong);
  for (const at::Tensor& keys : {some_keys(), other}) {
    loss_of(plain->forward(keys)).backward();
    loss_of(attached->forward(keys)).backward();
  }
  const at::Tensor unused = attached->forward(at::full({1}, 20, at::kLong));
  const auto used = attached->take();
  ASSERT_EQ(used.keys, (std::vector<std::uint64_t>{0, 3, 7, 12, 20, 49}));
  for (std::size_t i = 0; i < used.keys.size(); ++i)
    EXPECT_TRUE(at::allclose(used.gradient[static_cast<std::int64_t>(i)],
                             plain->weight.grad()[static_cast<std::int64_t>(used.keys[i])]));
}

TEST(SparseEmbedding, EvaluationPullsAndLeavesNothing) {
  SparseEmbedding plain(kSmall);
  SparseEmbedding attached(kSmall);
  PlainRows rows(plain);
  attached->attach(&rows);
  {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(attached->forward(some_keys()), plain->forward(some_keys())));
  }
  EXPECT_EQ(rows.pulls, 1);
  EXPECT_TRUE(attached->take().keys.empty());
  // Keys that are all padding pull no rows.
  const at::Tensor padding = attached->forward(at::full({2}, -1, at::kLong));
  EXPECT_EQ(padding.abs().sum().item<double>(), 0);
  EXPECT_EQ(rows.pulls, 1);
}

TEST(SparseEmbedding, DetachedItHasAFreshWeight) {
  SparseEmbedding plain(kSmall);
  SparseEmbedding table(kSmall);
  PlainRows rows(plain);
  table->attach(&rows);
  table->attach(nullptr);
  ASSERT_EQ(table->parameters().size(), 1U);
  EXPECT_TRUE(at::equal(table->weight, plain->weight));
  EXPECT_TRUE(table->weight.requires_grad());
}

TEST(SparseEmbedding, InDoubleItComputesInDouble) {
  SparseEmbedding table(kSmall);
  table->to(at::kDouble);
  const at::Tensor rows = table->forward(some_keys());
  EXPECT_EQ(rows.scalar_type(), at::kDouble);
  rows.sum().backward();
  EXPECT_EQ(table->weight.grad()[7].sum().item<double>(), 6);
}

TEST(SparseEmbedding, WhatMakesNoSenseIsRefused) {
  EXPECT_THROW(SparseEmbedding(SparseEmbeddingOptions{.dimension = 0}), Failure);
  EXPECT_THROW(SparseEmbedding(SparseEmbeddingOptions{.rows = 0}), Failure);
  SparseEmbedding table(kSmall);
  EXPECT_THROW(table->forward(at::full({1}, -2, at::kLong)), Failure);
  EXPECT_THROW(table->forward(at::zeros({1})), Failure);
}

}  // namespace
}  // namespace tally
