# Language level, sanitizers and build tools, the same for every target: a
# precompiled header can be shared only among targets whose flags agree.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Not CMAKE_POSITION_INDEPENDENT_CODE, which gives libraries and programs
# different flags.
add_compile_options(-fPIC)
# Headers are named from the root: "messages/ids.hpp".
include_directories(${PROJECT_SOURCE_DIR})

if(TROUPE_SANITIZE)
  add_compile_options(-fsanitize=${TROUPE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TROUPE_SANITIZE})
  if(TROUPE_SANITIZE MATCHES undefined)
    # vptr needs the type information of CAF's and LibTorch's hidden classes.
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=vptr)
  endif()
  if(TROUPE_SANITIZE MATCHES thread)
    # Where this is defined, protobuf's headers give maps two more members than
    # in the installed library.
    add_compile_options(-U__SANITIZE_THREAD__)
  endif()
endif()

find_program(TROUPE_MOLD mold)
if(TROUPE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache needs these settings for precompiled headers. Paths below the source
  # folder count as relative, so that another clone has hits, too.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TROUPE_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()
