# SPDX-License-Identifier: Apache-2.0
# Options of the build. All default to the interest of a project that consumes weightproof; developers use the presets.
include(GNUInstallDirs)
include(CMakeDependentOption)

if(PROJECT_IS_TOP_LEVEL)
  set(weightproof_top ON)
else()
  set(weightproof_top OFF)
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

option(WEIGHTPROOF_TOOL "Build the weightproof command" ${weightproof_top})
option(WEIGHTPROOF_TESTS "Build the tests" ${weightproof_top})
option(WEIGHTPROOF_BENCHMARKS "Build the benchmarks" ${weightproof_top})
option(WEIGHTPROOF_INSTALL "Create install rules" ${weightproof_top})
option(WEIGHTPROOF_MINIMAL "Build and test the reference alone" OFF)
option(WEIGHTPROOF_WERROR "Treat warnings as errors" OFF)
option(WEIGHTPROOF_PRECOMPILE "Read the headers of the standard library once for all libraries and once for all tests" OFF)
option(WEIGHTPROOF_ASSERTS "Check programmer errors at run time" ON)
option(WEIGHTPROOF_COVERAGE "Instrument for coverage" OFF)
set(WEIGHTPROOF_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")
set(WEIGHTPROOF_FUZZ_ENGINE "none" CACHE STRING "none: fuzz targets replay files; libfuzzer: clang's engine")
set(WEIGHTPROOF_CUDA "AUTO" CACHE STRING "CUDA kernels: AUTO, ON (fail without a toolkit) or OFF")
set(WEIGHTPROOF_CUDA_ARCHITECTURES "80-real;90-real;100-real;120-real;121-virtual" CACHE STRING "CUDA architectures")
set_property(CACHE WEIGHTPROOF_CUDA PROPERTY STRINGS AUTO ON OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Real checkpoint data for the tests that want it; they skip, with the reason, where the folder is absent.
set(WEIGHTPROOF_SHARED_DIR "${PROJECT_SOURCE_DIR}/../shared" CACHE PATH "Folder that holds data/ with real checkpoints")

# Warnings and instrumentation stay inside the tree: this target is never exported.
add_library(weightproof_build_flags INTERFACE)
target_compile_definitions(weightproof_build_flags INTERFACE WEIGHTPROOF_VERSION="${PROJECT_VERSION}")
target_compile_options(weightproof_build_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
    -Woverloaded-virtual -Wcast-qual -Wformat=2 -Wimplicit-fallthrough -Wno-missing-field-initializers -ffp-contract=off>
  # -Wrestrict of g++ 12 sees overlaps in the assignment of one-character strings where there are none.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fno-semantic-interposition -Wno-restrict>
  # Conversions are bit-exact on the device too: no contraction of a multiply and an add.
  "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;-Xcompiler=-Wall,-Wextra>")
if(WEIGHTPROOF_WERROR)
  target_compile_options(weightproof_build_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
endif()
if(NOT WEIGHTPROOF_ASSERTS)
  target_compile_definitions(weightproof_build_flags INTERFACE WEIGHTPROOF_NO_ASSERTS)
endif()
if(WEIGHTPROOF_SANITIZE)
  target_compile_options(weightproof_build_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${WEIGHTPROOF_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  # Instrumented code hides from g++ which member of a std::variant is alive: it then warns of members that are never read.
  target_compile_options(weightproof_build_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(weightproof_build_flags INTERFACE -fsanitize=${WEIGHTPROOF_SANITIZE})
endif()
if(WEIGHTPROOF_COVERAGE)
  target_compile_options(weightproof_build_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--coverage -fprofile-update=atomic>)
  target_link_options(weightproof_build_flags INTERFACE --coverage)
endif()
