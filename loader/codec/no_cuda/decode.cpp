// SPDX-License-Identifier: Apache-2.0
// Linked where there is no CUDA toolkit: the same symbols, which say so.
#include "loader/codec/device.hpp"
#include "loader/core/error.hpp"

namespace weightproof::codec {
namespace {

[[noreturn]] void absent() {
  throw Error(ErrorCode::device_unavailable, "this build has no CUDA kernels",
              {.hint = "install the CUDA toolkit and configure with WEIGHTPROOF_CUDA=ON"});
}

}  // namespace

DeviceStatus device_status() { return {false, "built without CUDA"}; }

void device_bytes(const std::uint8_t*, std::size_t, std::size_t, std::size_t, ByteFormat, const ColumnScales&, DType,
                  void*, std::size_t, Stream) {
  absent();
}
void device_mxfp4(const std::uint8_t*, std::size_t, std::size_t, const std::uint8_t*, DType, void*, std::size_t, bool,
                  Stream) {
  absent();
}
void device_nvfp4(const std::uint8_t*, std::size_t, const float*, DType, void*, Stream) { absent(); }
void device_int4(const std::uint8_t*, std::size_t, int, float, DType, void*, Stream) { absent(); }
void device_round(const std::uint32_t*, std::size_t, DType, void*, Stream) { absent(); }

}  // namespace weightproof::codec
