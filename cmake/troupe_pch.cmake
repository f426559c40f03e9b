# Precompiled headers, each compiled once and shared by all targets that use it:
#   troupe_use_torch_pch(target)      <torch/torch.h>
#   troupe_use_caf_pch(target)        <caf/all.hpp>, <caf/io/all.hpp>
#   troupe_use_torch_caf_pch(target)  both
# The target must link Troupe::torch, CAF::core and CAF::io respectively. Sources
# keep their own includes: with TROUPE_PCH=OFF they must compile as they are.

set(troupe_pch_torch_headers <torch/torch.h>)
set(troupe_pch_torch_libraries Troupe::torch)
set(troupe_pch_caf_headers <caf/all.hpp> <caf/io/all.hpp>)
set(troupe_pch_caf_libraries CAF::core CAF::io)
set(troupe_pch_torch_caf_headers ${troupe_pch_caf_headers} ${troupe_pch_torch_headers})
set(troupe_pch_torch_caf_libraries ${troupe_pch_caf_libraries} ${troupe_pch_torch_libraries})

function(troupe_use_pch kind target)
  if(NOT TROUPE_PCH)
    return()
  endif()
  set(owner troupe_pch_${kind})
  if(NOT TARGET ${owner})
    set(source ${PROJECT_BINARY_DIR}/pch/${owner}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Owns a precompiled header.\n")
    add_library(${owner} OBJECT ${source})
    target_link_libraries(${owner} PRIVATE ${${owner}_libraries} troupe_warnings)
    target_precompile_headers(${owner} PRIVATE ${${owner}_headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

function(troupe_use_torch_pch target)
  troupe_use_pch(torch ${target})
endfunction()

function(troupe_use_caf_pch target)
  troupe_use_pch(caf ${target})
endfunction()

function(troupe_use_torch_caf_pch target)
  troupe_use_pch(torch_caf ${target})
endfunction()
