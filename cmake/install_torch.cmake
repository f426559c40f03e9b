# Runs at installation: copies the libraries of `troupe_torch`, and what they need
# that is not the system's, into the folder `troupe_shared`, where each finds the
# others. What lies in the system's own folders stays there.

set(of_the_system "^/(usr/)?lib(32|64)?/([^/]+-linux-gnu[^/]*/)?[^/]+$")
list(FILTER troupe_torch EXCLUDE REGEX ${of_the_system})
list(REMOVE_DUPLICATES troupe_torch)
if(NOT troupe_torch)
  return()
endif()

file(
  GET_RUNTIME_DEPENDENCIES
  LIBRARIES ${troupe_torch}
  RESOLVED_DEPENDENCIES_VAR needed
  UNRESOLVED_DEPENDENCIES_VAR absent
  POST_EXCLUDE_REGEXES ${of_the_system})
foreach(name IN LISTS absent)
  message(WARNING "LibTorch needs ${name}, which is nowhere to be found")
endforeach()

if(NOT IS_ABSOLUTE "${troupe_shared}")
  set(troupe_shared "${CMAKE_INSTALL_PREFIX}/${troupe_shared}")
endif()
set(all ${troupe_torch} ${needed})
list(REMOVE_DUPLICATES all)
file(INSTALL ${all} DESTINATION "${troupe_shared}" FOLLOW_SYMLINK_CHAIN)
