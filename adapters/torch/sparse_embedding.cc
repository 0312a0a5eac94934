// forward() maps each key to a row index, its `place`: in `weight`, or among the rows pulled for
// this pass. Lookup gathers the rows, and its backward adds up the gradients of equal keys. While
// libtorch records a graph, the places are computed by operations on tensors instead, so that the
// graph has no places of the example.
#include "tally/sparse.h"

#include <algorithm>

#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "adapters/torch/key_tensors.h"
#include "adapters/torch/tensors.h"
#include "base/rng.h"
#include "data/permutation.h"

namespace tally {
namespace {

constexpr std::int64_t kPadding = -1;
constexpr std::int64_t kMaxDimension = 65536;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 32;

// output[i] = rows[places[i]]; padding leaves output[i] as it is, zeros.
template <typename T>
void gather(const at::Tensor& rows, const at::Tensor& places, const at::Tensor& output) {
  const std::int64_t width = rows.size(1);
  const T* const from = rows.data_ptr<T>();
  const std::int64_t* const place = places.data_ptr<std::int64_t>();
  T* to = output.data_ptr<T>();
  for (std::int64_t i = 0; i < places.numel(); ++i, to += width)
    if (place[i] != kPadding) std::copy_n(from + place[i] * width, width, to);
}

// sums[places[i]] += gradient[i], in the order of i. libtorch's index_add_ creates a tensor per
// row, which takes longer than the rest of a step.
template <typename T>
void scatter_add(const at::Tensor& gradient, const at::Tensor& places, const at::Tensor& sums) {
  const std::int64_t width = sums.size(1);
  const T* from = gradient.data_ptr<T>();
  const std::int64_t* const place = places.data_ptr<std::int64_t>();
  T* const to = sums.data_ptr<T>();
  for (std::int64_t i = 0; i < places.numel(); ++i, from += width) {
    if (place[i] == kPadding) continue;
    T* const row = to + place[i] * width;
    for (std::int64_t d = 0; d < width; ++d) row[d] += from[d];
  }
}

// Whether gather() and scatter_add() are used; other tensors use libtorch's kernels.
bool has_own_loops(const at::Tensor& tensor) {
  return tensor.is_cpu() &&
         (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble);
}

// Embedding lookup: rows [n, width] at places [m], int64 with -1 for padding, to [m, width].
class Lookup : public torch::autograd::Function<Lookup> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& rows,
                            const at::Tensor& places) {
    context->saved_data["rows"] = rows.size(0);
    context->save_for_backward({places});
    if (!has_own_loops(rows))
      return rows.index_select(0, places.clamp_min(0))
          .masked_fill_(places.eq(kPadding).unsqueeze(1), 0);
    const at::Tensor plain = rows.contiguous();
    at::Tensor output = at::zeros({places.numel(), rows.size(1)}, rows.options());
    if (rows.scalar_type() == at::kFloat)
      gather<float>(plain, places, output);
    else
      gather<double>(plain, places, output);
    return output;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const at::Tensor places = context->get_saved_variables()[0];
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor sums =
        at::zeros({context->saved_data["rows"].toInt(), gradient.size(1)}, gradient.options());
    if (!has_own_loops(gradient))
      sums.index_add_(0, places.clamp_min(0),
                      gradient.masked_fill(places.eq(kPadding).unsqueeze(1), 0));
    else if (gradient.scalar_type() == at::kFloat)
      scatter_add<float>(gradient, places, sums);
    else
      scatter_add<double>(gradient, places, sums);
    return {sums, at::Tensor()};
  }
};

// The keys of a tensor as a flat tensor on the CPU.
at::Tensor flat_keys(const at::Tensor& keys) {
  if (keys.scalar_type() != at::kLong)
    adapter::refuse(ErrorCode::kInvalid, "keys of a sparse embedding must be int64");
  at::Tensor flat = keys.to(at::kCPU).contiguous().view({-1});
  const std::int64_t* const key = flat.data_ptr<std::int64_t>();
  const auto* const negative =
      std::find_if(key, key + flat.numel(), [](std::int64_t k) { return k < kPadding; });
  if (negative != key + flat.numel())
    adapter::refuse(ErrorCode::kInvalid,
                    fmt::format("{} is no key: keys are 0 and above, -1 is padding", *negative));
  return flat;
}

std::vector<std::int64_t> result_shape(const at::Tensor& keys, std::int64_t dimension) {
  std::vector<std::int64_t> shape = keys.sizes().vec();
  shape.push_back(dimension);
  return shape;
}

// The place of each key, as a tensor; `place_of` is not called for padding.
template <typename PlaceOf>
at::Tensor places_of(const at::Tensor& flat, const PlaceOf& place_of) {
  at::Tensor places = at::empty_like(flat);
  const std::int64_t* const key = flat.data_ptr<std::int64_t>();
  std::int64_t* const place = places.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    place[i] = key[i] == kPadding ? kPadding : place_of(static_cast<std::uint64_t>(key[i]));
  return places;
}

// The same rows as from_weight(), by operations that a graph can record. It has no sizes of the
// example either.
at::Tensor recorded_lookup(const at::Tensor& weight, const at::Tensor& keys) {
  const at::Tensor places = adapter::rows_of(keys.clamp_min(0), weight.size(0));
  return at::embedding(weight, places).masked_fill(keys.eq(kPadding).unsqueeze(-1), 0);
}

// Sorts the keys and removes duplicates.
void sort_out(std::vector<std::uint64_t>& keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

std::int64_t place_in(const std::vector<std::uint64_t>& keys, std::uint64_t key) {
  return std::lower_bound(keys.begin(), keys.end(), key) - keys.begin();
}

}  // namespace

SparseEmbeddingImpl::SparseEmbeddingImpl(const SparseEmbeddingOptions& options)
    : options_(options) {
  if (options.dimension < 1 || options.dimension > kMaxDimension)
    adapter::refuse(ErrorCode::kInvalid, fmt::format("rows of {} numbers: from 1 to {}",
                                                     options.dimension, kMaxDimension));
  if (options.rows < 1 || options.rows > kMaxRows)
    adapter::refuse(ErrorCode::kInvalid,
                    fmt::format("{} rows: from 1 to {}", options.rows, kMaxRows));
  make_weight();
}

void SparseEmbeddingImpl::make_weight() {
  const at::Tensor values = at::empty({options_.rows, options_.dimension}, at::kFloat);
  float* at = values.data_ptr<float>();
  for (std::int64_t row = 0; row < options_.rows; ++row) {
    Rng rng(data::mix(options_.seed, static_cast<std::uint64_t>(row)));
    for (std::int64_t d = 0; d < options_.dimension; ++d)
      *at++ = static_cast<float>((2 * rng.uniform() - 1) * options_.initial_scale);
  }
  weight = register_parameter("weight", values);
}

void SparseEmbeddingImpl::attach(Rows* rows) {
  if (parameters_.contains("weight")) parameters_.erase("weight");
  weight = at::Tensor();
  passes_.clear();
  rows_ = rows;
  if (rows == nullptr) make_weight();
}

// Keys that are no row index are hashed; different keys may then share a row.
std::int64_t SparseEmbeddingImpl::row_of(std::uint64_t key) const {
  const auto rows = static_cast<std::uint64_t>(options_.rows);
  return static_cast<std::int64_t>(key < rows ? key : Rng(key).next() % rows);
}

at::Tensor SparseEmbeddingImpl::forward(const at::Tensor& keys) {
  return rows_ == nullptr ? from_weight(keys) : from_elsewhere(keys);
}

at::Tensor SparseEmbeddingImpl::from_weight(const at::Tensor& keys) {
  if (torch::jit::tracer::isTracing()) return recorded_lookup(weight, keys);
  const at::Tensor places =
      places_of(flat_keys(keys), [this](std::uint64_t key) { return row_of(key); });
  return Lookup::apply(weight, places.to(weight.device()))
      .view(result_shape(keys, options_.dimension));
}

at::Tensor SparseEmbeddingImpl::from_elsewhere(const at::Tensor& keys) {
  const at::Tensor flat = flat_keys(keys);
  Pass pass;
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    if (const std::int64_t key = flat.data_ptr<std::int64_t>()[i]; key != kPadding)
      pass.keys.push_back(static_cast<std::uint64_t>(key));
  sort_out(pass.keys);
  const auto count = static_cast<std::int64_t>(pass.keys.size());
  at::Tensor pulled = at::zeros({count, options_.dimension}, at::kFloat);
  if (count > 0)
    rows_->pull(pass.keys,
                std::span(pulled.data_ptr<float>(), static_cast<std::size_t>(pulled.numel())));
  pass.rows = pulled.to(keys.device());
  const bool trained = at::GradMode::is_enabled();
  if (trained) pass.rows.requires_grad_();
  const at::Tensor places =
      places_of(flat, [&pass](std::uint64_t key) { return place_in(pass.keys, key); });
  at::Tensor output = Lookup::apply(pass.rows, places.to(keys.device()));
  if (trained && count > 0) passes_.push_back(std::move(pass));
  return output.view(result_shape(keys, options_.dimension));
}

SparseEmbeddingImpl::Used SparseEmbeddingImpl::take() {
  Used used;
  for (const Pass& pass : passes_)
    used.keys.insert(used.keys.end(), pass.keys.begin(), pass.keys.end());
  sort_out(used.keys);
  used.gradient =
      at::zeros({static_cast<std::int64_t>(used.keys.size()), options_.dimension}, at::kFloat);
  for (const Pass& pass : passes_) {
    // No loss depends on this pass: it adds nothing to the gradients of its keys.
    if (!pass.rows.grad().defined()) continue;
    std::vector<std::int64_t> places;
    places.reserve(pass.keys.size());
    for (const std::uint64_t key : pass.keys) places.push_back(place_in(used.keys, key));
    scatter_add<float>(pass.rows.grad().to(at::kCPU, at::kFloat).contiguous(),
                       at::tensor(places, at::kLong), used.gradient);
  }
  passes_.clear();
  return used;
}

}  // namespace tally
