#pragma once
#include <cstdint>
#include <string>

#include "recipes/word2vec/training.h"

namespace tally::app {

// "950", "12.3k", "4.56M".
std::string short_number(double number);

// Returns "epoch 2/5  38 %  1.23M words/s  loss 2.310  rate 0.0180  left 0:12", shortened to
// `columns` (0: unlimited).
std::string word2vec_progress_line(const word2vec::Standing& standing, std::uint64_t epochs,
                                   int columns);

}  // namespace tally::app
