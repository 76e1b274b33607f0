# SPDX-License-Identifier: Apache-2.0
# Install rules for every library that weightproof_library() made. Components: development (libraries, headers, package files),
# testing (fixtures and suites) and runtime (the command). Nothing absolute is written, so that the prefix can be moved.
include(CMakePackageConfigHelpers)

set(weightproof_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weightproof")
set(weightproof_include_dir "${CMAKE_INSTALL_INCLUDEDIR}/weightproof")

get_property(weightproof_libraries GLOBAL PROPERTY WEIGHTPROOF_LIBRARIES)
set(weightproof_development_packages "")
set(weightproof_testing_packages "")
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
    if(item MATCHES "^(Threads|OpenSSL|fmt|simdjson|GTest|benchmark)::")
      list(APPEND weightproof_${component}_packages ${CMAKE_MATCH_1})
    elseif(item MATCHES "^CUDA::")
      list(APPEND weightproof_${component}_packages CUDAToolkit)
    endif()
  endforeach()
endforeach()
if(TARGET weightproof_loader)
  install(TARGETS weightproof_loader EXPORT weightproofTargets)
endif()
foreach(component development testing)
  list(REMOVE_DUPLICATES weightproof_${component}_packages)
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
  # The command writes its manual page and completions from its own table of options.
  if(NOT CMAKE_CROSSCOMPILING)
    set(weightproof_documents "")
    foreach(row "man;weightproof.1;${CMAKE_INSTALL_MANDIR}/man1" "bash;weightproof;${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
        "zsh;_weightproof;${CMAKE_INSTALL_DATADIR}/zsh/site-functions" "fish;weightproof.fish;${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
      list(GET row 0 kind)
      list(GET row 1 name)
      list(GET row 2 folder)
      set(file "${PROJECT_BINARY_DIR}/documents/${kind}/${name}")
      file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/documents/${kind}")
      add_custom_command(OUTPUT "${file}" COMMAND weightproof --generate ${kind} > "${file}" DEPENDS weightproof VERBATIM)
      list(APPEND weightproof_documents "${file}")
      install(FILES "${file}" DESTINATION "${folder}" COMPONENT runtime)
    endforeach()
    add_custom_target(weightproof_documents ALL DEPENDS ${weightproof_documents})
  endif()
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT development)
