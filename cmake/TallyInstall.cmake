# The libraries of users: Tally::tally with all modules and, where libtorch was found, Tally::torch
# with the trainer. Then the contents of an installation: these libraries, the headers, programs,
# MPI plugins, documents, and the files for find_package(Tally) and pkg-config.
#
# An installed prefix may be moved, because all paths in it are relative.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The modules that include/tally and the trainer need. Only our own programs use `sim` and the
# dataset readers of `data`.
set(installed_modules
  base kernel optimizer wire plan policy codec net group collective checkpoint server exchange
  train)
set(module_objects "")
foreach(module ${installed_modules})
  if(TARGET tally_${module})
    # engine_plugin.cc is compiled again below, without the path of the build folder.
    list(APPEND module_objects
      "$<FILTER:$<TARGET_OBJECTS:tally_${module}>,EXCLUDE,/engine_plugin\\.cc\\.>")
  endif()
endforeach()

add_library(tally_library STATIC
  ${module_objects} ${PROJECT_SOURCE_DIR}/src/collective/engine_plugin.cc)
set_target_properties(tally_library PROPERTIES OUTPUT_NAME tally EXPORT_NAME tally)
target_include_directories(tally_library PRIVATE ${PROJECT_SOURCE_DIR}/src
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(tally_library PUBLIC cxx_std_20)
target_compile_definitions(tally_library PRIVATE
  TALLY_PLUGIN_FOLDERS="${CMAKE_INSTALL_FULL_LIBDIR}/tally"
  TALLY_PLUGIN_FOLDER_BESIDE="${TALLY_PLUGIN_FOLDER_BESIDE}")
target_link_libraries(tally_library PRIVATE $<BUILD_INTERFACE:tally_options>
  spdlog::spdlog fmt::fmt OpenSSL::SSL OpenSSL::Crypto zstd::libzstd_shared Threads::Threads
  ${CMAKE_DL_LIBS})

add_library(Tally::tally ALIAS tally_library)

if(TARGET tally_torch)
  # With the kernels for GPUs, if tally_torch has them.
  set(gpu_objects "")
  set(TALLY_TORCH_HAS_KERNELS FALSE)
  if(TALLY_TORCH_HAS_CUDA AND TALLY_HAS_CUDA)
    set(TALLY_TORCH_HAS_KERNELS TRUE)
    foreach(library tally_cuda tally_cuda_kernels tally_nccl tally_nccl_kernels)
      if(TARGET ${library})
        list(APPEND gpu_objects $<TARGET_OBJECTS:${library}>)
      endif()
    endforeach()
  endif()
  # libtorch itself is not installed: the user's program finds its own, of the same version.
  add_library(tally_torch_library STATIC $<TARGET_OBJECTS:tally_torch> ${gpu_objects}
    "$<FILTER:$<TARGET_OBJECTS:tally_data>,INCLUDE,/(order|permutation|shard_course)\\.cc\\.>")
  set_target_properties(tally_torch_library PROPERTIES OUTPUT_NAME tally_torch EXPORT_NAME torch
    LINKER_LANGUAGE CXX)
  target_include_directories(tally_torch_library PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/adapters/torch/include>)
  target_link_libraries(tally_torch_library PUBLIC tally_library $<BUILD_INTERFACE:tally_libtorch>)
  if(TALLY_TORCH_HAS_KERNELS)
    target_link_libraries(tally_torch_library PUBLIC CUDA::cudart_static)
  endif()
  add_library(Tally::torch ALIAS tally_torch_library)
endif()

if(NOT TALLY_INSTALL)
  return()
endif()

install(TARGETS tally_library EXPORT TallyTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tally DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
if(TARGET tally)
  install(TARGETS tally RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# The documents keep their places relative to each other, so that their links work.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
  DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.cc")
if(TARGET tally-train)
  install(TARGETS tally-train tally-bench-train RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
get_property(mpi_plugins GLOBAL PROPERTY TALLY_MPI_PLUGINS)
foreach(plugin ${mpi_plugins})
  install(TARGETS tally_mpi_${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tally)
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Tally)
install(EXPORT TallyTargets NAMESPACE Tally:: DESTINATION ${package_folder})

if(TARGET tally_torch)
  install(TARGETS tally_torch_library EXPORT TallyTorchTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/adapters/torch/include/tally
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  install(EXPORT TallyTorchTargets NAMESPACE Tally:: DESTINATION ${package_folder})
endif()

set(generated ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/TallyConfig.cmake.in ${generated}/TallyConfig.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${generated}/TallyConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${generated}/TallyConfig.cmake ${generated}/TallyConfigVersion.cmake
  DESTINATION ${package_folder})

set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pkgconfig /prefix/${pkgconfig_folder} /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tally.pc.in ${generated}/tally.pc @ONLY)
install(FILES ${generated}/tally.pc DESTINATION ${pkgconfig_folder})
