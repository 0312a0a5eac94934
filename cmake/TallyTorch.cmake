# Finds libtorch. Sets TALLY_HAS_TORCH and defines the target tally_libtorch, which other targets
# link, and the function tally_torch_pch(target).
#
# Debian's libtorch has a CMake package. The CMake package of the pip wheel with CUDA requires a
# complete CUDA toolkit, so this file names the libraries of a wheel itself (TALLY_TORCH_WHEEL: the
# folder of its __init__.py).

set(TALLY_TORCH AUTO CACHE STRING "Build what needs libtorch: AUTO (where it is found), ON or OFF")
set(TALLY_TORCH_WHEEL "" CACHE PATH
  "Folder of an installed torch wheel to use instead of the CMake package")
set(TALLY_HAS_TORCH FALSE)
set(TALLY_TORCH_HAS_CUDA FALSE)

# libtorch is not built with sanitizers: reports from inside libtorch would hide ours.
if(NOT TALLY_TORCH OR TALLY_SANITIZE)
  return()
endif()

if(TALLY_TORCH_WHEEL)
  add_library(tally_libtorch INTERFACE)
  # The wheel contains the headers of another version of fmt, so our fmt comes first.
  target_include_directories(tally_libtorch SYSTEM INTERFACE
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>
    ${TALLY_TORCH_WHEEL}/include ${TALLY_TORCH_WHEEL}/include/torch/csrc/api/include)
  target_link_directories(tally_libtorch INTERFACE ${TALLY_TORCH_WHEEL}/lib)
  set(libraries torch torch_cpu c10)
  if(EXISTS ${TALLY_TORCH_WHEEL}/lib/libtorch_cuda.so)
    set(TALLY_TORCH_HAS_CUDA TRUE)
    list(APPEND libraries torch_cuda c10_cuda)
  endif()
  # --no-as-needed keeps all libraries: the CUDA library registers itself when it is loaded, but our
  # code does not refer to its symbols. stdc++ comes first, because the wheel exports parts of its
  # own C++ library, such as std::filesystem, which must not replace those of the system.
  target_link_libraries(tally_libtorch INTERFACE -Wl,--no-as-needed stdc++ ${libraries})
  target_link_options(tally_libtorch INTERFACE -Wl,-rpath,${TALLY_TORCH_WHEEL}/lib)
  set(TALLY_HAS_TORCH TRUE)
else()
  find_package(Torch QUIET)
  if(TORCH_FOUND)
    add_library(tally_libtorch INTERFACE)
    target_include_directories(tally_libtorch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
    target_link_libraries(tally_libtorch INTERFACE ${TORCH_LIBRARIES})
    set(TALLY_HAS_TORCH TRUE)
  endif()
endif()

if(NOT TALLY_HAS_TORCH)
  if(TALLY_TORCH STREQUAL "ON")
    message(FATAL_ERROR "TALLY_TORCH is ON and libtorch was not found: install libtorch-dev")
  endif()
  message(STATUS "libtorch not found: the trainer, the recipes and `tally train` are not built")
  return()
endif()

# All targets share one precompiled <torch/torch.h>. It takes half a minute to compile, and each
# file then takes a third of the time.
function(tally_torch_pch target)
  if(TARGET tally_torch_pch AND TARGET ${target})
    target_precompile_headers(${target} REUSE_FROM tally_torch_pch)
    # CMake would compile programs with -fPIE, and g++ then ignores a header compiled with -fPIC.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

file(WRITE ${PROJECT_BINARY_DIR}/tally_torch_pch.cc "\n")
add_library(tally_torch_pch OBJECT ${PROJECT_BINARY_DIR}/tally_torch_pch.cc)
target_link_libraries(tally_torch_pch PRIVATE
  tally_libtorch tally_options fmt::fmt Threads::Threads)
target_precompile_headers(tally_torch_pch PRIVATE <torch/torch.h>)
