# troupe_use_pch(KIND TARGET... [UNOPTIMISED])
# Precompiled headers, each compiled once and shared by all targets that use it:
#   caf    <caf/all.hpp>, <caf/io/all.hpp>
#   torch  these, <ATen/core/Tensor.h> and <c10/util/Logging.h>, whose CHECK has
#          to come before that of Catch2
#   test   Catch2 and <nlohmann/json.hpp>, for tests without either
# Not <torch/torch.h>: GCC instantiates what its inline functions need at the end
# of every source anew, which takes 7 s each.
# The targets must link the libraries of these headers.
# Sources keep their own includes: with TROUPE_PCH=OFF they must compile as they
# are.

set(troupe_pch_caf_headers <caf/all.hpp> <caf/io/all.hpp>)
set(troupe_pch_caf_libraries CAF::core CAF::io)
set(troupe_pch_torch_headers ${troupe_pch_caf_headers} <ATen/core/Tensor.h>
                            <c10/util/Logging.h>)
set(troupe_pch_torch_libraries ${troupe_pch_caf_libraries} Troupe::torch)
set(troupe_pch_test_headers
    <catch2/catch_test_macros.hpp> <catch2/matchers/catch_matchers_string.hpp>
    <nlohmann/json.hpp>)
set(troupe_pch_test_libraries Catch2::Catch2 nlohmann_json::nlohmann_json)

# UNOPTIMISED: in a release the header is compiled with -O0, as its targets are.
function(troupe_use_pch kind)
  if(NOT TROUPE_PCH)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "UNOPTIMISED" "" "")
  set(owner troupe_pch_${kind})
  if(arg_UNOPTIMISED)
    string(APPEND owner _unoptimised)
  endif()
  if(NOT TARGET ${owner})
    set(source ${PROJECT_BINARY_DIR}/pch/${owner}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Owns a precompiled header.\n")
    add_library(${owner} OBJECT ${source})
    target_link_libraries(${owner} PRIVATE ${troupe_pch_${kind}_libraries}
                                           troupe_warnings)
    target_precompile_headers(${owner} PRIVATE ${troupe_pch_${kind}_headers})
    if(arg_UNOPTIMISED)
      target_compile_options(${owner} PRIVATE $<$<CONFIG:Release>:-O0>)
    endif()
  endif()
  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endforeach()
endfunction()
