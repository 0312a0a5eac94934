#include "adapters/cuda/codec/codec_stream.h"

#include <algorithm>

#include "base/errors.h"

namespace tally::cuda {

Result<void> checked(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return {};
  // Later calls would seem to have failed.
  (void)cudaGetLastError();
  const auto code =
      status == cudaErrorMemoryAllocation ? ErrorCode::kExhausted : ErrorCode::kSystem;
  return make_error(code, "{}: {}", what, cudaGetErrorString(status));
}

Result<CodecStream> CodecStream::of(const cudaStream_t& stream) {
  CodecStream made(stream);
  TALLY_TRY(checked(cudaGetDevice(&made.device_), "the current device"));
  TALLY_TRY(checked(
      cudaDeviceGetAttribute(&made.processors_, cudaDevAttrMultiProcessorCount, made.device_),
      "the number of processors"));
  return made;
}

Result<void> CodecStream::enter() const {
  return checked(cudaSetDevice(device_), "the device of a codec");
}

Result<void> CodecStream::clear(void* at, std::size_t bytes) const {
  if (bytes == 0) return {};
  return checked(cudaMemsetAsync(at, 0, bytes, get()), "clearing memory of the device");
}

Result<void> CodecStream::read(void* to, const void* from, std::size_t bytes) const {
  TALLY_TRY(checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, get()),
                    "reading from the device"));
  return checked(cudaStreamSynchronize(get()), "waiting for the device");
}

CodecMemory::~CodecMemory() {
  if (at_ != nullptr) cudaFree(at_);
}

Result<void> CodecMemory::allocate(std::size_t bytes, const CodecStream& stream) {
  TALLY_TRY(checked(cudaMalloc(&at_, std::max<std::size_t>(bytes, 1)), "memory for a codec"));
  return stream.clear(at_, bytes);
}

}  // namespace tally::cuda
