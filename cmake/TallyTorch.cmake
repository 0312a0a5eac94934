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

# libtorch from pytorch.org has headers of other libraries among its own, such as fmt in a newer
# version than the fmt that we link. Their folder must not come before ours, and the order of system
# folders cannot ensure that: CMake and the compiler leave out /usr/include, because it is searched
# last anyway. This function therefore writes, for each library that libtorch's folders ARGN shadow,
# headers that include those of the library that CMake has found, into a folder that `target` passes
# with -I: the compiler searches those before all -isystem folders.
function(tally_prefer_own_headers target)
  set(preferred ${PROJECT_BINARY_DIR}/preferred_headers)
  foreach(library "fmt fmt::fmt" "nlohmann nlohmann_json::nlohmann_json" "spdlog spdlog::spdlog"
      "gtest GTest::gtest" "gmock GTest::gmock")
    string(REPLACE " " ";" library ${library})
    list(GET library 0 name)
    list(GET library 1 package)
    if(NOT TARGET ${package})
      continue()
    endif()
    get_target_property(folders ${package} INTERFACE_INCLUDE_DIRECTORIES)
    # A library that is built in the same project has its folder in $<BUILD_INTERFACE:...>.
    string(REGEX REPLACE "\\$<BUILD_INTERFACE:([^>]*)>" "\\1" folders "${folders}")
    string(GENEX_STRIP "${folders}" folders)
    unset(own)
    foreach(folder ${folders} ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
      if(IS_DIRECTORY ${folder}/${name})
        file(REAL_PATH ${folder}/${name} own)
        break()
      endif()
    endforeach()
    set(is_shadowed FALSE)
    foreach(folder ${ARGN})
      if(IS_DIRECTORY ${folder}/${name})
        file(REAL_PATH ${folder}/${name} others)
        if(NOT others STREQUAL own)
          set(is_shadowed TRUE)
        endif()
      endif()
    endforeach()
    if(NOT is_shadowed)
      continue()
    endif()
    if(NOT own)
      message(FATAL_ERROR "libtorch has its own headers of ${name}, and those of ${package} were "
        "not found in ${folders}")
    endif()
    file(GLOB_RECURSE headers RELATIVE ${own} ${own}/*)
    foreach(header ${headers})
      # As a system header it gives no warnings, and so does the header that it includes.
      file(CONFIGURE OUTPUT ${preferred}/${name}/${header} @ONLY CONTENT
        "#pragma GCC system_header\n#include \"${own}/${header}\"\n")
    endforeach()
    target_include_directories(${target} BEFORE INTERFACE ${preferred})
    message(STATUS "libtorch has headers of ${name}; ${own} comes before them")
  endforeach()
endfunction()

if(TALLY_TORCH_WHEEL)
  if(NOT EXISTS ${TALLY_TORCH_WHEEL}/include/torch)
    message(FATAL_ERROR "TALLY_TORCH_WHEEL: ${TALLY_TORCH_WHEEL} has no include/torch; the folder "
      "is that of the __init__.py of an installed torch")
  endif()
  add_library(tally_libtorch INTERFACE)
  set(TALLY_TORCH_INCLUDE_DIRS
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
    set(TALLY_TORCH_INCLUDE_DIRS ${TORCH_INCLUDE_DIRS})
    target_link_libraries(tally_libtorch INTERFACE ${TORCH_LIBRARIES})
    if(TARGET torch_cuda)
      set(TALLY_TORCH_HAS_CUDA TRUE)
    endif()
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

target_include_directories(tally_libtorch SYSTEM INTERFACE ${TALLY_TORCH_INCLUDE_DIRS})
tally_prefer_own_headers(tally_libtorch ${TALLY_TORCH_INCLUDE_DIRS})

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
