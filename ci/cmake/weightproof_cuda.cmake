# SPDX-License-Identifier: Apache-2.0
# Finds the CUDA toolkit. Sets WEIGHTPROOF_CUDA_FOUND and WEIGHTPROOF_CUDA_STATUS. Only loader/codec and loader/exec look at the
# result, to link their cuda/ or their no_cuda/ twin.
set(WEIGHTPROOF_CUDA_FOUND OFF)
set(WEIGHTPROOF_CUDA_STATUS "off")
if(NOT WEIGHTPROOF_CUDA STREQUAL "OFF" AND NOT WEIGHTPROOF_MINIMAL)
  include(CheckLanguage)
  # An architecture must be set before the language is enabled: "native" fails where there is no GPU.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "${WEIGHTPROOF_CUDA_ARCHITECTURES}")
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25.1 (Debian 12) does not know nvcc's C++20 flag; newer versions do and skip this.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(WEIGHTPROOF_CUDA_FOUND ON)
    set(WEIGHTPROOF_CUDA_STATUS "${CMAKE_CUDA_COMPILER_VERSION}")
  elseif(WEIGHTPROOF_CUDA STREQUAL "ON")
    message(FATAL_ERROR "WEIGHTPROOF_CUDA=ON but no CUDA compiler was found; set CMAKE_CUDA_COMPILER or use AUTO")
  else()
    set(WEIGHTPROOF_CUDA_STATUS "no toolkit found")
  endif()
endif()
