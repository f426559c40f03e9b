# troupe_add_library(NAME <target> SOURCES <file>... [LIBS <target>...]
#                    [PCH torch|caf|torch_caf] [UNITY <files>])
# A static library (header-only when it has no .cpp) with the project's
# warnings; LIBS are PUBLIC. UNITY compiles so many sources as one, which saves
# most of the time that templates of LibTorch and CAF take.
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
  troupe_unite(${arg_NAME} "${arg_UNITY}")
endfunction()

# Names in anonymous namespaces must differ within a target then. With
# TROUPE_UNITY=OFF each source is compiled for itself.
function(troupe_unite target files)
  if(TROUPE_UNITY AND files)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                                               UNITY_BUILD_BATCH_SIZE ${files})
  endif()
endfunction()
