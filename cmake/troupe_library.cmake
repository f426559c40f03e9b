# troupe_add_library(NAME <target> SOURCES <file>... [LIBS <target>...]
#                    [PCH torch|caf|torch_caf])
# A static library (header-only when it has no .cpp) with the project's
# warnings; LIBS are PUBLIC.
function(troupe_add_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;PCH" "SOURCES;LIBS")
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
endfunction()
