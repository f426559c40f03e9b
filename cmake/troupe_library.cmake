# troupe_add_library(NAME <target> SOURCES <file>... [LIBS <target>...]
#                    [PCH caf|torch] [UNITY <files>])
# A static library (header-only when it has no .cpp) with the project's
# warnings; LIBS are PUBLIC. UNITY sources, or else 12, are compiled as one: that
# saves most of the time that templates of LibTorch and CAF take.
function(troupe_add_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;PCH;UNITY" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "troupe_add_library: unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(compiled ${arg_SOURCES})
  list(FILTER compiled INCLUDE REGEX "\\.cpp$")
  if(NOT compiled)
    add_library(${arg_NAME} INTERFACE ${arg_SOURCES})
    target_link_libraries(${arg_NAME} INTERFACE ${arg_LIBS})
    return()
  endif()
  add_library(${arg_NAME} STATIC ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PUBLIC ${arg_LIBS}
                                    PRIVATE $<BUILD_INTERFACE:troupe_warnings>)
  set_property(GLOBAL APPEND PROPERTY TROUPE_LIBRARIES ${arg_NAME})
  if(arg_PCH)
    troupe_use_pch(${arg_PCH} ${arg_NAME})
  endif()
  troupe_unite(${arg_NAME} ${arg_UNITY})
endfunction()

# troupe_unite(TARGET [FILES]) compiles so many sources of the target, or else 12,
# as one. Names in anonymous namespaces must differ within a target then. With
# TROUPE_UNITY=OFF, or without precompiled headers, each source is compiled for
# itself.
function(troupe_unite target)
  set(files ${ARGN} 12)
  list(GET files 0 files)
  if(TROUPE_UNITY AND TROUPE_PCH)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                                               UNITY_BUILD_BATCH_SIZE ${files})
  endif()
endfunction()

# troupe_see_observers(SOURCE...) for sources that observe what LibTorch does.
# The class that LibTorch hands to an observer has one more member where asserts
# are on. LibTorch was built without asserts, so these sources must be, too, in
# any build.
function(troupe_see_observers)
  if(NOT CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
    set_source_files_properties(
      ${ARGN} PROPERTIES COMPILE_DEFINITIONS NDEBUG SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()
