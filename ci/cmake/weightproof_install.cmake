# SPDX-License-Identifier: Apache-2.0
# Install rules for every library that weightproof_library() made. Components: development (libraries, headers, package files),
# testing (fixtures and suites) and runtime (the command). Nothing absolute is written, so that the prefix can be moved.
include(CMakePackageConfigHelpers)

set(weightproof_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weightproof")
set(weightproof_include_dir "${CMAKE_INSTALL_INCLUDEDIR}/weightproof")

get_property(weightproof_libraries GLOBAL PROPERTY WEIGHTPROOF_LIBRARIES)
set(weightproof_packages Threads)
set(weightproof_needs_cuda OFF)
foreach(library IN LISTS weightproof_libraries)
  if(library MATCHES "^weightproof_(fixtures|suites)")
    set(component testing)
    set(export weightproofTestingTargets)
  else()
    set(component development)
    set(export weightproofTargets)
  endif()
  install(TARGETS ${library} EXPORT ${export}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component}
    FILE_SET HEADERS DESTINATION "${weightproof_include_dir}" COMPONENT ${component}
    FILE_SET tables DESTINATION "${weightproof_include_dir}" COMPONENT ${component})
  set(weightproof_has_${component} ON)

  # What a static library links privately a consumer links too: the package file has to find it.
  set(linked "")
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(value ${library} ${property})
    if(value)
      list(APPEND linked ${value})
    endif()
  endforeach()
  foreach(item IN LISTS linked)
    if(item MATCHES "^OpenSSL::")
      list(APPEND weightproof_packages OpenSSL)
    elseif(item MATCHES "^fmt::")
      list(APPEND weightproof_packages fmt)
    elseif(item MATCHES "^simdjson::")
      list(APPEND weightproof_packages simdjson)
    elseif(item MATCHES "^CUDA::")
      list(APPEND weightproof_packages CUDAToolkit)
    elseif(item MATCHES "^(nlohmann_json|Eigen3|CLI11|GTest|benchmark)::")
      list(APPEND weightproof_packages "${CMAKE_MATCH_1}")
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES weightproof_packages)
if(TARGET weightproof_loader)
  install(TARGETS weightproof_loader EXPORT weightproofTargets)
endif()

set(weightproof_find_dependencies "")
foreach(package IN LISTS weightproof_packages)
  string(APPEND weightproof_find_dependencies "find_dependency(${package})\n")
endforeach()

foreach(export weightproofTargets weightproofTestingTargets)
  if(export STREQUAL "weightproofTestingTargets" AND NOT weightproof_has_testing)
    continue()
  endif()
  set(component development)
  if(export STREQUAL "weightproofTestingTargets")
    set(component testing)
  endif()
  install(EXPORT ${export} NAMESPACE weightproof:: DESTINATION "${weightproof_package_dir}" COMPONENT ${component})
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/weightproof-config.cmake.in" "${PROJECT_BINARY_DIR}/package/weightproof-config.cmake"
  INSTALL_DESTINATION "${weightproof_package_dir}" NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break what it offers.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(weightproof_compatibility SameMinorVersion)
else()
  set(weightproof_compatibility SameMajorVersion)
endif()
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/weightproof-config-version.cmake" COMPATIBILITY ${weightproof_compatibility})
install(FILES "${PROJECT_BINARY_DIR}/package/weightproof-config.cmake" "${PROJECT_BINARY_DIR}/package/weightproof-config-version.cmake"
  DESTINATION "${weightproof_package_dir}" COMPONENT development)

if(TARGET weightproof)
  install(TARGETS weightproof RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development)
