# Troupe::allocator: link it to a program to replace malloc for all of the
# process. glibc gives a step's large blocks back to the kernel and faults them
# in again at the next one; mimalloc keeps them. Empty where mimalloc is not to
# be had or a sanitizer needs malloc for itself.

add_library(Troupe::allocator INTERFACE IMPORTED)
if(TROUPE_MIMALLOC AND NOT TROUPE_SANITIZE)
  find_library(TROUPE_MIMALLOC_LIBRARY mimalloc)
  if(TROUPE_MIMALLOC_LIBRARY)
    target_link_options(
      Troupe::allocator INTERFACE
      "SHELL:-Wl,--push-state,--no-as-needed ${TROUPE_MIMALLOC_LIBRARY} -Wl,--pop-state")
    find_path(TROUPE_MIMALLOC_INCLUDE mimalloc.h PATH_SUFFIXES mimalloc-2.0)
    if(TROUPE_MIMALLOC_INCLUDE)
      target_include_directories(Troupe::allocator INTERFACE
                                 ${TROUPE_MIMALLOC_INCLUDE})
      target_compile_definitions(Troupe::allocator INTERFACE TROUPE_HAS_MIMALLOC)
    endif()
  else()
    message(STATUS "mimalloc not found: the programs use the C library's malloc")
  endif()
endif()
