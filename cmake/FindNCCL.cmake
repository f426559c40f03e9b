# Troupe::nccl: the headers of NCCL and of the CUDA runtime that it includes.
# No library: NCCL is loaded at run time, so that the build needs no GPU and a
# machine without one runs the same binary.

find_path(NCCL_INCLUDE_DIR nccl.h PATH_SUFFIXES include)
get_filename_component(_torch_root "${TroupeTorch_INCLUDE_DIR}" DIRECTORY)
find_path(
  NCCL_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS ${_torch_root}/../nvidia/cu13 ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda
  PATH_SUFFIXES include)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR)

if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h _nccl_lines
       REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" _nccl_lines "${_nccl_lines}")
  string(REPLACE ";" "." NCCL_VERSION "${_nccl_lines}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  NCCL
  REQUIRED_VARS NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR
  VERSION_VAR NCCL_VERSION
  REASON_FAILURE_MESSAGE "run ./dev setup --with-cuda, or set NCCL_INCLUDE_DIR")

if(NCCL_FOUND AND NOT TARGET Troupe::nccl)
  add_library(Troupe::nccl INTERFACE IMPORTED)
  target_include_directories(Troupe::nccl INTERFACE ${NCCL_INCLUDE_DIR}
                                                    ${NCCL_CUDA_INCLUDE_DIR})
  target_link_libraries(Troupe::nccl INTERFACE ${CMAKE_DL_LIBS})
endif()
