#pragma once
#include <cstdint>

#include <torch/torch.h>

namespace tally::adapter {

// The hashes of keys as operations on int64 tensors, whose bits are taken as unsigned numbers. They
// run on any device, and a graph that records them computes with other keys, too.

// Rng(state).next() of each element.
at::Tensor next_of(const at::Tensor& states);

// data::mix(a, b) of each pair of elements.
at::Tensor mixed(const at::Tensor& a, const at::Tensor& b);

// The bits of each element, shifted to the right; zeros enter.
at::Tensor shifted_right(const at::Tensor& bits, int count);

// The row of each key in a table of at most 2^32 `rows`: the key itself if it is below `rows`,
// otherwise a hash of it. Keys are not negative.
at::Tensor rows_of(const at::Tensor& keys, std::int64_t rows);

}  // namespace tally::adapter
