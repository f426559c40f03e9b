# troupe_warnings: link it PRIVATE to get the project's warnings. Third-party
# headers come from imported targets and so count as system headers.

add_library(troupe_warnings INTERFACE)
target_compile_options(
  troupe_warnings INTERFACE -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual
                            -Wextra-semi -Wredundant-decls)
if(TROUPE_WERROR)
  target_compile_options(troupe_warnings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 raises these for sound code that it has inlined: they stay warnings.
    foreach(doubtful IN ITEMS array-bounds free-nonheap-object maybe-uninitialized
                              restrict stringop-overflow stringop-overread)
      target_compile_options(troupe_warnings INTERFACE -Wno-error=${doubtful})
    endforeach()
  endif()
endif()
