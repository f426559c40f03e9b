# Finds what `./dev setup` has left in its cache folder. Whatever the user names
# in CMAKE_PREFIX_PATH, as a variable or in the environment, goes first.

if(DEFINED ENV{TROUPE_CACHE} AND NOT "$ENV{TROUPE_CACHE}" STREQUAL "")
  set(troupe_cache "$ENV{TROUPE_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(troupe_cache "$ENV{XDG_CACHE_HOME}/troupe")
else()
  set(troupe_cache "$ENV{HOME}/.cache/troupe")
endif()

if(TROUPE_SANITIZE MATCHES thread)
  set(troupe_caf_kind tsan)
else()
  set(troupe_caf_kind release)
endif()

# Adds the newest complete folder of each kind, behind the folders that are
# there already.
function(troupe_add_prefix pattern subfolder)
  file(GLOB stamps ${troupe_cache}/${pattern}/.complete)
  if(NOT stamps)
    return()
  endif()
  list(SORT stamps COMPARE NATURAL ORDER DESCENDING)
  list(GET stamps 0 newest)
  cmake_path(GET newest PARENT_PATH folder)
  list(APPEND CMAKE_PREFIX_PATH ${folder}${subfolder})
  set(CMAKE_PREFIX_PATH ${CMAKE_PREFIX_PATH} PARENT_SCOPE)
endfunction()

if(DEFINED ENV{CMAKE_PREFIX_PATH})
  cmake_path(CONVERT "$ENV{CMAKE_PREFIX_PATH}" TO_CMAKE_PATH_LIST from_environment)
  list(APPEND CMAKE_PREFIX_PATH ${from_environment})
  unset(ENV{CMAKE_PREFIX_PATH}) # find_package would read it for itself
endif()
troupe_add_prefix(caf-*-${troupe_caf_kind} "")
troupe_add_prefix(torch-*-cpu "/torch")
troupe_add_prefix(catch2-* "")
troupe_add_prefix(nccl-* "/nvidia/nccl")

# LibTorch's folder holds other projects' headers, protobuf's and fmt's among
# them: only FindTroupeTorch may look in it.
set(troupe_torch_folders "")
foreach(folder IN LISTS CMAKE_PREFIX_PATH)
  set(root ${folder})
  if(folder MATCHES "/share/cmake(/Torch)?/?$") # as torch.utils says it
    string(REGEX REPLACE "/share/cmake(/Torch)?/?$" "" root ${folder})
  endif()
  if(EXISTS ${root}/include/ATen)
    list(APPEND troupe_torch_folders ${root})
    list(REMOVE_ITEM CMAKE_PREFIX_PATH ${folder})
  endif()
endforeach()
