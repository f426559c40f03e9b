# troupe_add_test(NAME <exe> LABEL unit|integration|fault|slow
#                 SOURCES <file>... [LIBS <target>...]
#                 [PCH torch|caf|torch_caf] [TIMEOUT <seconds>]
#                 [SERIAL] [LOCK <resource>...] [OWN_MAIN] [ONE_PROCESS]
#                 [LINKS_TORCH] [DEPENDS <target>...])
# A Catch2 program whose cases become CTest tests named <exe>.<case>.
#   SERIAL       no other test runs meanwhile
#   LOCK         no other test with the same resource runs meanwhile
#   OWN_MAIN     the sources bring main()
#   ONE_PROCESS  one CTest test for the whole program: for many small cases of a
#                program that is slow to start, as those with LibTorch are
#   LINKS_TORCH  needs LibTorch; a PCH with torch in its name implies it
#   DEPENDS      targets to build first, such as a program that the test runs
#
# With TROUPE_SANITIZE only some tests exist, and the target sanitized_tests
# builds just those: none that runs a program of ours, and those with LibTorch,
# which cannot be had instrumented, only with TROUPE_SANITIZE_TORCH.

include(Catch)
if(TROUPE_SANITIZE)
  add_custom_target(sanitized_tests)
endif()

set(troupe_test_environment
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
    LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/sanitizers/lsan.supp:print_suppressions=0
    TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/sanitizers/tsan.supp:ignore_noninstrumented_modules=1:halt_on_error=1
    UBSAN_OPTIONS=print_stacktrace=1)

function(troupe_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL;OWN_MAIN;ONE_PROCESS;LINKS_TORCH"
                        "NAME;LABEL;PCH;TIMEOUT" "SOURCES;LIBS;LOCK;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "troupe_add_test: unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_LABEL MATCHES "^(unit|integration|fault|slow)$")
    message(FATAL_ERROR "troupe_add_test(${arg_NAME}): no such label: ${arg_LABEL}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
    if(arg_LABEL STREQUAL "slow")
      set(arg_TIMEOUT 600)
    endif()
  endif()

  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} troupe_warnings)
  if(arg_OWN_MAIN)
    target_link_libraries(${arg_NAME} PRIVATE Catch2::Catch2)
  else()
    target_link_libraries(${arg_NAME} PRIVATE Catch2::Catch2WithMain)
  endif()
  if(arg_PCH)
    troupe_use_pch(${arg_PCH} ${arg_NAME})
  endif()
  if(arg_DEPENDS)
    add_dependencies(${arg_NAME} ${arg_DEPENDS})
  endif()

  if(TROUPE_SANITIZE)
    if(arg_PCH MATCHES torch)
      set(arg_LINKS_TORCH TRUE)
    endif()
    if(arg_DEPENDS OR (arg_LINKS_TORCH AND NOT TROUPE_SANITIZE_TORCH))
      return()
    endif()
    add_dependencies(sanitized_tests ${arg_NAME})
  endif()

  set(properties LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 4)
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(arg_ONE_PROCESS)
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
    set_tests_properties(
      ${arg_NAME} PROPERTIES ${properties} ENVIRONMENT "${troupe_test_environment}")
    if(arg_LOCK)
      set_tests_properties(${arg_NAME} PROPERTIES RESOURCE_LOCK "${arg_LOCK}")
    endif()
    return()
  endif()
  if(arg_LOCK)
    list(APPEND properties RESOURCE_LOCK "${arg_LOCK}")
  endif()
  # Listing the cases when CTest starts, not when the program is linked, keeps a
  # program that cannot run here from failing the build.
  catch_discover_tests(
    ${arg_NAME}
    TEST_PREFIX ${arg_NAME}.
    DISCOVERY_MODE PRE_TEST
    PROPERTIES ${properties} ENVIRONMENT "${troupe_test_environment}")
endfunction()
