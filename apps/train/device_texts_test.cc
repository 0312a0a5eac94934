#include "apps/train/device_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Devices, AreOneWordOrAList) {
  EXPECT_THAT(*parse_devices("auto"), ElementsAre("auto"));
  EXPECT_THAT(*parse_devices("cuda,cpu,cpu"), ElementsAre("cuda", "cpu", "cpu"));
  for (const char* text : {"", "gpu", "cuda,", ",cpu", "cuda cpu", "cuda,,cpu"}) {
    const auto parsed = parse_devices(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("cuda,cpu,cpu"));
  }
}

TEST(Devices, AreOfAllWorkersOfEachWorkerOrOfEachHost) {
  EXPECT_THAT(*devices_of_workers({"cuda"}, {3}), ElementsAre("cuda", "cuda", "cuda"));
  EXPECT_THAT(*devices_of_workers({"cuda", "cpu"}, {2}), ElementsAre("cuda", "cpu"));
  EXPECT_THAT(*devices_of_workers({"cuda", "cpu"}, {1, 3}),
              ElementsAre("cuda", "cpu", "cpu", "cpu"));
  // Two hosts with a worker each: both readings are the same.
  EXPECT_THAT(*devices_of_workers({"cuda", "cpu"}, {1, 1}), ElementsAre("cuda", "cpu"));
  const auto few = devices_of_workers({"cuda", "cpu"}, {3});
  ASSERT_FALSE(few.has_value());
  EXPECT_THAT(few.error().message, HasSubstr("2 devices for 3 workers"));
  const auto hosts = devices_of_workers({"cuda", "cpu", "cpu"}, {2, 2});
  ASSERT_FALSE(hosts.has_value());
  EXPECT_THAT(hosts.error().message, HasSubstr("one for each host"));
}

// Messages of libtorch 1.13 and 2.11.
TEST(NoGpu, IsExplainedByWhatLibtorchSays) {
  EXPECT_THAT(no_gpu_text("Cannot initialize CUDA without ATen_cuda library. PyTorch splits its "
                          "backend into two shared libraries"),
              HasSubstr("built without CUDA"));
  EXPECT_THAT(no_gpu_text("Could not run 'aten::empty.memory_format' with arguments from the "
                          "'CUDA' backend. This could be because"),
              HasSubstr("built without CUDA"));
  EXPECT_THAT(no_gpu_text("The NVIDIA driver on your system is too old (found version 11040)."),
              HasSubstr("update the driver"));
  EXPECT_THAT(no_gpu_text("CUDA driver version is insufficient for CUDA runtime version"),
              HasSubstr("update the driver"));
  EXPECT_THAT(no_gpu_text("No CUDA GPUs are available"), HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(no_gpu_text("no CUDA-capable device is detected"), HasSubstr("sees no GPU here"));
  for (const char* message : {"Found no NVIDIA driver on your system. Please check",
                              "CUDA driver initialization failed, you might not have a CUDA gpu."})
    EXPECT_THAT(no_gpu_text(message), HasSubstr("driver is not installed or not loaded"))
        << message;
  const std::string other = no_gpu_text("CUDA unknown error\nstack");
  EXPECT_THAT(other, HasSubstr("(CUDA unknown error)"));
  EXPECT_THAT(other, Not(HasSubstr("stack")));
}

TEST(Failure, OfAFullGpuNamesTheOptionsThatHelp) {
  for (const char* message :
       {"CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "memory for a codec: out of memory",
        "the GPU failed while making room: out of memory (cudaErrorMemoryAllocation)"}) {
    EXPECT_THAT(gpu_failure_text(message), StartsWith("out of GPU memory: a smaller --batch"));
    EXPECT_THAT(gpu_failure_text(message), HasSubstr("--accumulate"));
    EXPECT_EQ(torch_failure_text(message), gpu_failure_text(message));
  }
}

TEST(Failure, OfAGpuIsToldFromOtherFailures) {
  const char* const broken =
      "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be";
  for (const char* message :
       {broken, "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "a sum: unspecified launch failure",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(`"})
    EXPECT_THAT(gpu_failure_text(message), StartsWith("the GPU has failed: ")) << message;
  EXPECT_THAT(gpu_failure_text("CUDA error: no kernel image is available for execution on the dev"),
              StartsWith("this libtorch has no kernels for this GPU: install"));
  EXPECT_EQ(torch_failure_text(broken),
            "the GPU has failed: CUDA error: an illegal memory access was encountered; with "
            "CUDA_LAUNCH_BLOCKING=1 libtorch names the operation");
  EXPECT_THAT(gpu_failure_text("CUDA error: device-side assert triggered\nCompile with"),
              HasSubstr("a label or an index is out of range"));
  EXPECT_EQ(gpu_failure_text("CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm("),
            "");
  const char* const silent =
      "the GPU does not answer: its work was not done after 5 min; restart this worker";
  EXPECT_EQ(gpu_failure_text(silent), silent);
  const char* const shapes = "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\nException";
  for (const char* own :
       {"NVIDIA H200, GPU 0: failed while adding (cudaErrorIllegalAddress: an illegal memory "
        "access "
        "was encountered); the log of the kernel (dmesg) may name a fault of the GPU after \"Xid\"",
        "the GPU of this worker: its memory is full (creating a stream); use a smaller model",
        "NVIDIA H200, GPU 0: 9 GiB of memory were wanted, and 1 GiB of 139 GiB are free; use a "
        "smaller model or batch, or end other programs that use the GPU"})
    EXPECT_EQ(gpu_failure_text(own), own);
  EXPECT_EQ(gpu_failure_text(shapes), "");
  EXPECT_EQ(gpu_failure_text("out of memory: 3 of 2 GiB"), "");  // of the host
  EXPECT_EQ(torch_failure_text(shapes),
            "libtorch: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
  EXPECT_THAT(torch_failure_text("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't "
                                 "allocate memory: you tried to allocate 800 bytes."),
              StartsWith("out of memory: "));
}

}  // namespace
}  // namespace tally::app
