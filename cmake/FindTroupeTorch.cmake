# Troupe::torch: LibTorch's libtorch_cpu.so and libc10.so.
#
# Looked for in TROUPE_TORCH_DIR (the folder that holds include/ and lib/, such
# as a Python environment's torch folder), Torch_DIR and CMAKE_PREFIX_PATH; then,
# through the library's own package, with find_package(Torch). That comes last:
# a CUDA build's package asks for the CUDA toolkit, which we need not have. CUDA
# is loaded at run time, so a binary linked with these two serves GPUs too.

if(Torch_DIR)
  get_filename_component(_torch_root "${Torch_DIR}/../../.." ABSOLUTE)
endif()
if(TROUPE_TORCH_DIR)
  # A changed or wrong folder must not be hidden by an earlier result.
  set(_torch_only NO_DEFAULT_PATH)
  if(NOT _troupe_torch_dir_used STREQUAL TROUPE_TORCH_DIR)
    unset(TroupeTorch_INCLUDE_DIR CACHE)
    unset(TroupeTorch_CPU_LIBRARY CACHE)
    unset(TroupeTorch_C10_LIBRARY CACHE)
  endif()
endif()
set(_troupe_torch_dir_used "${TROUPE_TORCH_DIR}" CACHE INTERNAL "")

set(_torch_hints ${TROUPE_TORCH_DIR} ${_torch_root} ${troupe_torch_folders})
find_path(TroupeTorch_INCLUDE_DIR ATen/core/Tensor.h
          HINTS ${_torch_hints} PATH_SUFFIXES include ${_torch_only})
find_library(TroupeTorch_CPU_LIBRARY torch_cpu
             HINTS ${_torch_hints} PATH_SUFFIXES lib ${_torch_only})
find_library(TroupeTorch_C10_LIBRARY c10
             HINTS ${_torch_hints} PATH_SUFFIXES lib ${_torch_only})
mark_as_advanced(TroupeTorch_INCLUDE_DIR TroupeTorch_CPU_LIBRARY
                 TroupeTorch_C10_LIBRARY)

set(_torch_version_file ${TroupeTorch_INCLUDE_DIR}/torch/headeronly/version.h)
if(NOT EXISTS ${_torch_version_file})
  set(_torch_version_file
      ${TroupeTorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h)
endif()
if(EXISTS ${_torch_version_file})
  file(STRINGS ${_torch_version_file} _torch_lines
       REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" _torch_lines "${_torch_lines}")
  string(REPLACE ";" "." TroupeTorch_VERSION "${_torch_lines}")
endif()

if(NOT TroupeTorch_CPU_LIBRARY AND NOT TROUPE_TORCH_DIR)
  find_package(Torch QUIET CONFIG)
  if(Torch_FOUND)
    set(TroupeTorch_INCLUDE_DIR ${TORCH_INCLUDE_DIRS})
    set(TroupeTorch_CPU_LIBRARY ${TORCH_LIBRARIES})
    set(TroupeTorch_C10_LIBRARY ${TORCH_LIBRARIES})
    set(TroupeTorch_VERSION ${Torch_VERSION})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  TroupeTorch
  REQUIRED_VARS TroupeTorch_CPU_LIBRARY TroupeTorch_C10_LIBRARY
                TroupeTorch_INCLUDE_DIR
  VERSION_VAR TroupeTorch_VERSION
  REASON_FAILURE_MESSAGE "run ./dev setup, or name your LibTorch: -DTROUPE_TORCH_DIR=FOLDER")

if(TroupeTorch_FOUND AND NOT TARGET Troupe::torch)
  if(Torch_FOUND)
    add_library(Troupe::torch INTERFACE IMPORTED)
    target_link_libraries(Troupe::torch INTERFACE ${TORCH_LIBRARIES})
  else()
    add_library(Troupe::c10 SHARED IMPORTED)
    set_target_properties(
      Troupe::c10 PROPERTIES IMPORTED_LOCATION ${TroupeTorch_C10_LIBRARY})
    add_library(Troupe::torch SHARED IMPORTED)
    set_target_properties(
      Troupe::torch PROPERTIES IMPORTED_LOCATION ${TroupeTorch_CPU_LIBRARY})
    target_link_libraries(Troupe::torch INTERFACE Troupe::c10)
    # Behind all others: the wheel ships protobuf 3.13 and its own fmt beside its
    # headers, and the system's must win.
    target_compile_options(
      Troupe::torch
      INTERFACE "SHELL:-idirafter ${TroupeTorch_INCLUDE_DIR}"
                "SHELL:-idirafter ${TroupeTorch_INCLUDE_DIR}/torch/csrc/api/include")
  endif()
endif()
