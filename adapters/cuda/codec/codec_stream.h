#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string_view>

#include "tally/error.h"

// The CUDA runtime for codecs, with Results. The .cu files include this, so it includes no fmt,
// whose headers nvcc does not compile with every host compiler.
namespace tally::cuda {

// kExhausted if memory is missing, else kSystem.
Result<void> checked(cudaError_t status, std::string_view what);

// Where a codec works: the stream of a CudaDevice, which may change between calls, on the device
// that was current when the codec was made.
class CodecStream final {
 public:
  static Result<CodecStream> of(const cudaStream_t& stream);

  // Makes the device current for the calling thread.
  Result<void> enter() const;
  cudaStream_t get() const { return *stream_; }
  int processors() const { return processors_; }

  Result<void> clear(void* at, std::size_t bytes) const;
  // Waits for the stream.
  Result<void> read(void* to, const void* from, std::size_t bytes) const;

 private:
  explicit CodecStream(const cudaStream_t& stream) : stream_(&stream) {}

  const cudaStream_t* stream_;
  int device_ = 0;
  int processors_ = 0;  // of the device
};

// Memory of a device.
class CodecMemory final {
 public:
  CodecMemory() = default;
  CodecMemory(const CodecMemory&) = delete;
  CodecMemory& operator=(const CodecMemory&) = delete;
  ~CodecMemory();

  // Zeroed; once per object.
  Result<void> allocate(std::size_t bytes, const CodecStream& stream);
  template <typename T>
  T* as() const {
    return static_cast<T*>(at_);
  }

 private:
  void* at_ = nullptr;
};

}  // namespace tally::cuda
