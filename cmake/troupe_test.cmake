# troupe_add_test(NAME <exe> LABEL unit|integration|fault|slow
#                 SOURCES <file>... [LIBS <target>...]
#                 [PCH caf|torch|test] [UNITY <files>] [TIMEOUT <seconds>]
#                 [SERIAL] [LOCK <resource>...] [OWN_MAIN] [ONE_PROCESS]
#                 [OPTIMISED] [SANITIZED] [DEPENDS <target>...])
# A Catch2 program whose cases become CTest tests named <exe>.<case>. Its sources
# are not optimised: GCC takes twice as long at -O1.
#   SERIAL       no other test runs meanwhile
#   LOCK         no other test with the same resource runs meanwhile
#   OWN_MAIN     the sources bring main()
#   ONE_PROCESS  one CTest test for the whole program: for many small cases of a
#                program that is slow to start, as those with LibTorch are
#   OPTIMISED    compiled at -O1: for what computes for many seconds otherwise
#   DEPENDS      targets to build first, such as a program that the test runs
#   SANITIZED    runs under the sanitizers although it has DEPENDS
#
# With TROUPE_SANITIZE only some tests exist, and the target sanitized_tests
# builds just those: tests that start programs of ours are too slow, but for
# those that say SANITIZED.

include(Catch)
if(TROUPE_SANITIZE)
  add_custom_target(sanitized_tests)
endif()

function(troupe_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL;OWN_MAIN;ONE_PROCESS;OPTIMISED;SANITIZED"
                        "NAME;LABEL;PCH;UNITY;TIMEOUT" "SOURCES;LIBS;LOCK;DEPENDS")
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
  if(NOT arg_PCH)
    set(arg_PCH test)
  endif()
  if(arg_OPTIMISED)
    target_compile_options(${arg_NAME} PRIVATE $<$<CONFIG:Release>:-O1>)
    troupe_use_pch(${arg_PCH} ${arg_NAME})
  else()
    target_compile_options(${arg_NAME} PRIVATE $<$<CONFIG:Release>:-O0>)
    troupe_use_pch(${arg_PCH} ${arg_NAME} UNOPTIMISED)
  endif()
  troupe_unite(${arg_NAME} ${arg_UNITY})
  if(arg_DEPENDS)
    add_dependencies(${arg_NAME} ${arg_DEPENDS})
  endif()

  if(TROUPE_SANITIZE)
    if(arg_DEPENDS AND NOT arg_SANITIZED)
      return()
    endif()
    add_dependencies(sanitized_tests ${arg_NAME})
    # A test under ThreadSanitizer takes up to fifteen times as long.
    math(EXPR arg_TIMEOUT "15 * ${arg_TIMEOUT}")
  endif()

  set(properties LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 4)
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(arg_ONE_PROCESS)
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
    set_tests_properties(${arg_NAME} PROPERTIES ${properties})
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
    PROPERTIES ${properties})
endfunction()

# Runs all of a test once more, with nodes that show each other a certificate.
# The variable that names it is as good as a flag of each node; the test of the
# name `certificates` makes it.
function(troupe_repeat_over_tls test label timeout)
  if(TROUPE_SANITIZE)
    return()
  endif()
  add_test(NAME ${test}_over_tls COMMAND ${ARGN})
  set_tests_properties(
    ${test}_over_tls
    PROPERTIES LABELS ${label} TIMEOUT ${timeout} FIXTURES_REQUIRED certificates
               ENVIRONMENT "TROUPE_CLUSTER_TLS_DIR=${PROJECT_BINARY_DIR}/certificates/node")
endfunction()
