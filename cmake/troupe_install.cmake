# The package: programs with networks and policies of their own are built against it.
#   cmake --install build/release --prefix FOLDER
#   find_package(Troupe), target_link_libraries(my_trainer PRIVATE Troupe::trainer)
# Libraries that Troupe was built with are looked for where they were then,
# unless CMAKE_PREFIX_PATH or TROUPE_TORCH_DIR names others.
#
# trainer_node itself finds LibTorch beside it, so that the folder can be moved
# to another place or another machine; all else that it needs is the system's.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Troupe)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/troupe)

get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
foreach(library IN LISTS libraries)
  string(REPLACE troupe_ "" short ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${short})
  target_include_directories(${library} SYSTEM
                             INTERFACE $<INSTALL_INTERFACE:${headers}>)
endforeach()
target_compile_features(troupe_config INTERFACE cxx_std_20)

install(TARGETS ${libraries} EXPORT Troupe ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS trainer_node RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# LibTorch has a folder of our own, since other programs may use another one.
set(shared ${CMAKE_INSTALL_FULL_LIBDIR}/troupe)
file(RELATIVE_PATH from_program ${CMAKE_INSTALL_FULL_BINDIR} ${shared})
set_target_properties(trainer_node PROPERTIES INSTALL_RPATH "$ORIGIN/${from_program}")
install(
  CODE "set(troupe_torch \"${TroupeTorch_CPU_LIBRARY};${TroupeTorch_C10_LIBRARY}\")
set(troupe_shared \"${CMAKE_INSTALL_LIBDIR}/troupe\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_torch.cmake)

install(EXPORT Troupe NAMESPACE Troupe:: DESTINATION ${package})
foreach(folder IN ITEMS config messages models data actors apps)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${headers}
          FILES_MATCHING PATTERN *.hpp)
endforeach()
# Programs that include this header by its earlier name can still be built.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/training.hpp
     CONTENT "#pragma once\n#include <actors/own_loop/training.hpp>\n")
install(FILES ${PROJECT_BINARY_DIR}/package/training.hpp
        DESTINATION ${headers}/actors/modules)
# With these headers others test their own policies.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tests/policies DESTINATION ${headers}/tests
        FILES_MATCHING PATTERN *.hpp)
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/messages
        DESTINATION ${headers} FILES_MATCHING PATTERN *.pb.h)

cmake_path(GET TroupeTorch_INCLUDE_DIR PARENT_PATH troupe_torch_found)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/TroupeConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/TroupeConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/package/TroupeConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/package/TroupeConfig.cmake
        ${PROJECT_BINARY_DIR}/package/TroupeConfigVersion.cmake
        ${PROJECT_SOURCE_DIR}/cmake/FindTroupeTorch.cmake
        ${PROJECT_SOURCE_DIR}/cmake/troupe_allocator.cmake
  DESTINATION ${package})
