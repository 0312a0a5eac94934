#pragma once
#include <cstdint>
#include <string>

#include "recipes/word2vec/training.h"

namespace tally::app {

// "950", "12.3k", "4.56M".
std::string short_number(double number);

// "epoch 2/5  38 %  1.23M words/s  loss 2.310  rate 0.0180  left 0:12", and of that as much as fits
// into `columns` (0: any).
std::string word2vec_progress_line(const word2vec::Standing& standing, std::uint64_t epochs,
                                   int columns);

}  // namespace tally::app
