// SPDX-License-Identifier: Apache-2.0
// Every golden case through detection, probes, byte runs and decode: bit for bit, on every kernel tier, whole and by
// random boxes. What other software or a typical bug produces (`expected-<alt>`) must differ.
#include <random>

#include "loader/codec/codec.hpp"
#include "loader/codec/detect.hpp"
#include "loader/codec/kernels.hpp"
#include "loader/codec/tests/golden_testing.hpp"

namespace weightproof::codec {
namespace {

using testing::GoldenFile;

void take_runs(const Codec& codec, const GoldenFile& file, const Box& box, std::vector<std::vector<std::byte>>& parts) {
  std::vector<ByteRun> runs;
  codec.byte_runs(box, runs);
  parts.assign(codec.components().size(), {});
  for (const ByteRun& run : runs) {
    const std::vector<std::byte>& source = file.bytes.at(codec.components()[run.component].key);
    EXPECT_LE(run.offset + run.bytes, source.size()) << codec.components()[run.component].key;
    parts[run.component].insert(parts[run.component].end(), source.begin() + static_cast<std::ptrdiff_t>(run.offset),
                                source.begin() + static_cast<std::ptrdiff_t>(run.offset + run.bytes));
  }
}

std::vector<std::byte> decode_box(const Codec& codec, const GoldenFile& file, const Box& box, DType target) {
  std::vector<std::vector<std::byte>> parts;
  take_runs(codec, file, box, parts);
  std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
  std::vector<std::byte> out(box.element_count() * (target == DType::f32 ? 4 : 2));
  codec.decode(box, views, target, out.data());
  return out;
}

std::unique_ptr<const Codec> codec_of(const QuantizedTensor& tensor, const GoldenFile& file) {
  std::vector<std::vector<std::byte>> probes;
  for (const Probe& probe : probes_of(tensor.scheme, tensor.components))
    probes.push_back(file.bytes.at(tensor.components[probe.component].key));
  return make_codec(tensor.scheme, tensor.components, probes);
}

/// The expected file holds the tensor in the model's orientation: for the blocks-and-scales spelling of Hugging Face,
/// transposed.
std::vector<std::byte> oriented(const std::vector<std::byte>& dense, const Shape& natural, const Shape& expected,
                                std::size_t width) {
  if (natural == expected) return dense;
  EXPECT_EQ(natural.rank(), 3u);
  std::vector<std::byte> out(dense.size());
  const std::uint64_t rows = natural[1], cols = natural[2];
  for (std::uint64_t e = 0; e < natural[0]; ++e)
    for (std::uint64_t r = 0; r < rows; ++r)
      for (std::uint64_t c = 0; c < cols; ++c)
        std::memcpy(out.data() + ((e * cols + c) * rows + r) * width,
                    dense.data() + ((e * rows + r) * cols + c) * width, width);
  return out;
}

bool is_asked_for(const std::string& name) { return !name.starts_with("gguf") && !name.starts_with("f6"); }

ConfigValue config_with(const nlohmann::json& quantization) {
  nlohmann::json config;
  if (!quantization.is_null()) config["quantization_config"] = quantization;
  return ConfigValue::parse(config.is_null() ? "{}" : config.dump(), "config.json");
}

TEST(Golden, EveryCaseIsBitExactOnEveryTier) {
  const nlohmann::json manifest = testing::read_json("manifest.json");
  std::string tiers;
  for (const Kernels* tier : available_kernels()) tiers += " " + std::string(tier->name);
  std::size_t cases = 0, elements = 0, alternates = 0;
  std::mt19937_64 random(7);
  for (const auto& entry : manifest["cases"]) {
    const std::string name = entry["name"];
    if (!is_asked_for(name)) continue;
    SCOPED_TRACE(name);
    const GoldenFile file = testing::read_golden(entry["quant_file"]);
    const ConfigValue config = config_with(entry["quantization_config"]);
    const Quantization found = detect_quantization(&config, {}, file.catalog);
    for (const Diagnostic& d : found.diagnostics) EXPECT_NE(d.severity, Severity::fail) << d.check << ": " << d.message;
    ASSERT_EQ(found.tensors.size(), 1u);
    EXPECT_EQ(found.consumed.size(), file.catalog.size()) << "a companion is left over";
    const auto codec = codec_of(found.tensors[0], file);
    ++cases;
    for (const auto& [kind, expected] : entry["expected"].items()) {
      const bool is_alternate = kind.find(':') != std::string::npos;
      const DType target = kind.ends_with("bf16") ? DType::bf16 : DType::f32;
      const GoldenFile truth = testing::read_golden(expected["file"]);
      ASSERT_EQ(truth.catalog.size(), 1u);
      const StoredTensor& stored = truth.catalog.tensors()[0];
      EXPECT_EQ(stored.key, found.tensors[0].key);
      const std::vector<std::byte>& want = truth.bytes.begin()->second;
      const std::size_t width = target == DType::f32 ? 4 : 2;
      for (const Kernels* tier : available_kernels()) {
        force_kernels(tier);
        const std::vector<std::byte> dense = decode_box(*codec, file, Box::whole(codec->natural_shape()), target);
        const std::vector<std::byte> got = oriented(dense, codec->natural_shape(), stored.shape, width);
        if (is_alternate) {
          const nlohmann::json& main = entry["expected"][target == DType::f32 ? "f32" : "bf16"]["tensors"];
          const bool is_same_in_this_dtype =
              main.begin().value()["sha256"] == expected["tensors"].begin().value()["sha256"];
          if (!is_same_in_this_dtype) {
            EXPECT_NE(got, want) << "the alternate " << kind << " was produced on " << tier->name;
          }
          alternates += is_same_in_this_dtype ? 0u : 1u;
          continue;
        }
        ASSERT_EQ(got.size(), want.size());
        std::size_t differing = 0;
        for (std::size_t i = 0; i < want.size(); i += width)
          differing += std::memcmp(&got[i], &want[i], width) != 0 ? 1u : 0u;
        EXPECT_EQ(differing, 0u) << kind << " on " << tier->name;
        elements += want.size() / width;
        for (int round = 0; round < 12; ++round) {  // any box, aligned outward, equals its part of the whole
          Box box = Box::whole(codec->natural_shape());
          for (unsigned axis = 0; axis < box.start.rank(); ++axis) {
            const std::uint64_t extent = codec->natural_shape()[axis];
            box.start[axis] = random() % extent;
            box.length[axis] = 1 + random() % (extent - box.start[axis]);
          }
          const Box aligned = codec->align(box);
          const std::vector<std::byte> part = decode_box(*codec, file, aligned, target);
          for (std::uint64_t i = 0; i < aligned.element_count(); ++i) {
            Coordinate at = coordinate_of(aligned.length, i);
            for (unsigned axis = 0; axis < at.rank(); ++axis) at[axis] += aligned.start[axis];
            ASSERT_EQ(0, std::memcmp(&part[i * width], &dense[linear_index(codec->natural_shape(), at) * width], width))
                << "box " << to_string(aligned) << " at " << to_string(at);
          }
        }
      }
    }
  }
  force_kernels(nullptr);
  std::printf("golden: %zu cases, %zu elements compared, %zu alternates refused; tiers:%s\n", cases, elements,
              alternates, tiers.c_str());
  EXPECT_EQ(cases, 40u);
}

}  // namespace
}  // namespace weightproof::codec
