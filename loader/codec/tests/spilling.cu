// SPDX-License-Identifier: Apache-2.0
// A kernel that needs more registers than it is given: the check of spills must turn red on it.
__global__ void spilling_kernel(float* data) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = data[threadIdx.x * 64 + i];
#pragma unroll
  for (int round = 0; round < 4; ++round)
#pragma unroll
    for (int i = 0; i < 64; ++i) values[i] = values[i] * values[(i * 7 + 13) % 64] + values[(i + 31) % 64];
#pragma unroll
  for (int i = 0; i < 64; ++i) data[threadIdx.x * 64 + i] = values[i];
}
