# Finds a CUDA compiler. Sets TALLY_HAS_CUDA and enables the CUDA language; without a compiler the
# tests run the code of adapters/cuda over an emulated GPU, and programs do not use it.
#
# Also defines the target gpu_programs, and decides whether ctest runs the tests with label gpu.
#
# CUDA code is compiled for the GPU architectures of TALLY_CUDA_ARCHITECTURES, as
# CMAKE_CUDA_ARCHITECTURES names them; GPUs that are newer than the last one compile its PTX when a
# program starts. CMake's variable and its environment variable CUDAARCHS replace the list.
# The CUDA runtime is linked statically and loads the driver at run time, so that programs also
# start on machines without a driver.

set(TALLY_CUDA AUTO CACHE STRING "Build what needs CUDA: AUTO (where nvcc is found), ON or OFF")
set(TALLY_CUDA_ARCHITECTURES "80-real;90" CACHE STRING
  "GPU architectures to compile CUDA code for, unless CMAKE_CUDA_ARCHITECTURES or CUDAARCHS is set")
set(TALLY_GPU_TESTS AUTO CACHE STRING
  "Let ctest run the tests with label gpu: AUTO (where there is a GPU), ON or OFF")
set(TALLY_HAS_CUDA FALSE)

# All programs that need a GPU to run: the tests with label gpu, and the benchmarks of bench/cuda.
# They are compiled everywhere, but only machines with a GPU run the tests.
add_custom_target(gpu_programs)
function(tally_gpu_program name)
  add_dependencies(gpu_programs ${name})
endfunction()

set(TALLY_RUN_GPU_TESTS ${TALLY_GPU_TESTS})
if(TALLY_GPU_TESTS STREQUAL "AUTO")
  set(TALLY_RUN_GPU_TESTS FALSE)
  file(GLOB gpus /dev/nvidia[0-9]*)
  # Some systems have no such files, and some have nvidia-smi and no GPU.
  find_program(TALLY_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(TALLY_NVIDIA_SMI)
  if(NOT gpus AND TALLY_NVIDIA_SMI)
    execute_process(COMMAND ${TALLY_NVIDIA_SMI} -L OUTPUT_VARIABLE gpus ERROR_QUIET TIMEOUT 60)
  endif()
  if(gpus MATCHES "/dev/nvidia|^GPU ")
    set(TALLY_RUN_GPU_TESTS TRUE)
  endif()
endif()

if(NOT TALLY_CUDA)
  return()
endif()

# A reason to build without CUDA: an error if TALLY_CUDA is ON, else one line.
macro(tally_without_cuda reason)
  if(TALLY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TALLY_CUDA is ON: ${reason}")
  endif()
  message(STATUS "CUDA: ${reason}; programs use GPUs through libtorch only")
endmacro()

if(TALLY_SANITIZE)
  tally_without_cuda("sanitizers (TALLY_SANITIZE=${TALLY_SANITIZE}) do not work with CUDA's driver")
  return()
endif()

# CMake looks for the compiler in CUDACXX and PATH only.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(TALLY_NVCC nvcc PATHS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(TALLY_NVCC)
  if(TALLY_NVCC)
    set(ENV{CUDACXX} ${TALLY_NVCC})
  endif()
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  tally_without_cuda("nvcc not found (PATH, CUDACXX, /usr/local/cuda/bin)")
  return()
endif()

# Our libraries are compiled by one compiler, which nvcc also uses.
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
  set(ENV{CUDAHOSTCXX} ${CMAKE_CXX_COMPILER})
endif()
# CMake itself reads the environment only when it first sees a folder, and then keeps the list.
if(DEFINED ENV{CUDAARCHS} AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${TALLY_CUDA_ARCHITECTURES})
endif()

# Compiles a program in a project of its own, so that a failure is no error here.
include(CheckLanguage)
set(CMAKE_MESSAGE_LOG_LEVEL_BEFORE ${CMAKE_MESSAGE_LOG_LEVEL})
set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
check_language(CUDA)
set(CMAKE_MESSAGE_LOG_LEVEL ${CMAKE_MESSAGE_LOG_LEVEL_BEFORE})
if(NOT CMAKE_CUDA_COMPILER)
  # The next configuration looks again, perhaps with another host compiler.
  unset(CMAKE_CUDA_COMPILER CACHE)
  tally_without_cuda("nvcc does not compile with ${CMAKE_CXX_COMPILER} as its host compiler \
($ENV{CUDACXX}; its output is in CMakeFiles/CMakeConfigureLog.yaml, before CMake 3.26 in \
CMakeFiles/CMakeError.log)")
  return()
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
  tally_without_cuda("nvcc ${CMAKE_CUDA_COMPILER_VERSION} has no C++20, which nvcc 12.0 has")
  return()
endif()
find_package(CUDAToolkit QUIET)
if(NOT TARGET CUDA::cudart_static)
  tally_without_cuda("the static CUDA runtime (libcudart_static.a) of nvcc \
${CMAKE_CUDA_COMPILER_VERSION} was not found")
  return()
endif()

set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
# CMake 3.25 does not know how nvcc is told to use C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
if(TALLY_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
set(TALLY_HAS_CUDA TRUE)
message(STATUS "CUDA: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, "
  "GPU architectures ${CMAKE_CUDA_ARCHITECTURES}")
if(NOT TALLY_RUN_GPU_TESTS)
  message(STATUS "GPU: none here, so the tests with label gpu are compiled and not run")
endif()
