#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

// libFuzzer's entry point; the input is arbitrary.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Inputs that pass the first checks, from which replay_main.cc starts, and inputs that once failed.
std::vector<std::vector<std::uint8_t>> fuzz_seeds();
