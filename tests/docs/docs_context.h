#pragma once
// The names that code in the documents uses without defining them. Nothing of this is linked.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include <tally/accumulator.h>
#include <tally/checkpoint.h>
#include <tally/job.h>
#include <tally/server.h>
#include <tally/torch.h>

struct Net : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x);
};
struct Batch {
  at::Tensor x;
  at::Tensor y;
  std::uint64_t size() const;
};

extern const at::Tensor images;
extern const at::Tensor labels;
std::vector<Batch> batches(int size);
at::Tensor loss(const at::Tensor& output, const at::Tensor& target);

extern const std::unique_ptr<tally::Job> job;
extern Net net;
extern tally::Trainer trainer;
extern const Batch batch;

extern const std::uint64_t first;
extern std::vector<float> mine;

extern tally::server::Client client;
extern const tally::server::TableId table;
extern const std::vector<std::uint64_t> keys;
extern std::vector<float> rows;
std::vector<float> gradient_of(const std::vector<float>& rows);
