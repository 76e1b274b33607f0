#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A loader in numpy alone: its own reader and writer of safetensors files, decoding of FP8, MXFP8 and MXFP4.

Everything else that is quantized is "not supported". Values are decoded in F32 and rounded once, to nearest even.
"""
import json
import struct
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from subject import Unsupported, run  # noqa: E402

WIDTH = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "I16": 2, "U16": 2,
    "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip
RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
ASKED = {"bf16": "BF16", "f32": "F32", "f16": "F16"}
CONFIG_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
PLAIN_FLOATS = ("F16", "BF16", "F32", "F64")
MXFP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
# Words in names of schemes that this reader does not decode.
OTHER_SCHEMES = (".qweight", ".weight_packed", ".absmax", "_qdata", ".SCB", "_global_scale", "_scale_2", ".qzeros", ".biases", "_zero_point")


class Tensor:
    """Codes of one stored tensor: raw unsigned integers of its width in its shape."""

    def __init__(self, dtype, raw):
        self.dtype = dtype
        self.raw = raw

    @property
    def shape(self):
        return self.raw.shape


def read_file(path):
    """{name: Tensor} of one safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if dtype not in WIDTH:
            raise Unsupported(f"dtype {dtype} of {name}")
        raw = np.frombuffer(data, RAW[WIDTH[dtype]], (end - begin) // WIDTH[dtype], 8 + length + begin)
        out[name] = Tensor(dtype, raw.reshape(shape))
    return out


def read_checkpoint(directory):
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return read_file(directory / "model.safetensors")
    out = {}
    for file in sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())):
        out.update(read_file(directory / file))
    return out


def write_file(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.raw.size * WIDTH[tensor.dtype]
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor.raw).tobytes())


def small_float_table(exponent_bits, mantissa_bits, bias, kind):
    """The 256 values of an 8-bit format as F32. ieee: infinities and NaN; fn: NaN where all bits are set; fnuz: -0 is NaN."""
    codes = np.arange(256)
    sign = np.where(codes & 0x80, np.float32(-1), np.float32(1))
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = codes & ((1 << mantissa_bits) - 1)
    fraction = np.ldexp(mantissa.astype(np.float64), -mantissa_bits)
    value = np.where(exponent == 0, np.ldexp(fraction, 1 - bias), np.ldexp(1 + fraction, exponent - bias))
    top = (1 << exponent_bits) - 1
    if kind == "fnuz":
        value = np.where(codes == 0x80, np.nan, value)
    elif kind == "fn":
        value = np.where((exponent == top) & (mantissa == (1 << mantissa_bits) - 1), np.nan, value)
    else:
        value = np.where(exponent == top, np.where(mantissa == 0, np.inf, np.nan), value)
    return sign * value.astype(np.float32)


SMALL_FLOATS = {
    "F8_E4M3": small_float_table(4, 3, 7, "fn"),
    "F8_E5M2": small_float_table(5, 2, 15, "ieee"),
    "F8_E4M3FNUZ": small_float_table(4, 3, 8, "fnuz"),
    "F8_E5M2FNUZ": small_float_table(5, 2, 16, "fnuz"),
}
E8M0 = np.where(np.arange(256) == 255, np.nan, np.ldexp(1.0, np.arange(256) - 127)).astype(np.float32)


def to_f32(tensor):
    """Values as F32: exact for every format that is narrower."""
    return values_of(tensor.raw.reshape(-1), tensor.dtype).reshape(tensor.shape)


def values_of(raw, dtype):
    if dtype == "F32":
        return raw.view(np.float32)
    if dtype == "BF16":
        return (raw.astype(np.uint32) << 16).view(np.float32)
    if dtype == "F16":
        return raw.view(np.float16).astype(np.float32)
    if dtype == "F64":
        return raw.view(np.float64).astype(np.float32)
    if dtype in SMALL_FLOATS:
        return SMALL_FLOATS[dtype][raw]
    if dtype == "F8_E8M0":
        return E8M0[raw]
    raise Unsupported(f"values of {dtype}")


def to_bf16(values):
    """To nearest, ties to even; a NaN stays one."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def from_f32(values, dtype):
    shape, values = np.shape(values), np.ascontiguousarray(values, np.float32).reshape(-1)
    if dtype == "BF16":
        raw = to_bf16(values)
    elif dtype == "F16":
        with np.errstate(over="ignore"):
            raw = values.astype(np.float16).view(np.uint16)
    else:
        dtype, raw = "F32", values.view(np.uint32)
    return Tensor(dtype, raw.reshape(shape))


def times_scale(values, scale, block):
    """values [.., rows, columns] times a scale: one number, one per expert, one per row, or a grid of blocks."""
    if scale.size == 1:
        return values * scale.reshape(())
    if values.ndim == 3 and scale.size == values.shape[0]:
        return values * scale.reshape(-1, 1, 1)
    if values.ndim == 2 and scale.size == values.shape[0] and scale.ndim <= 2 and scale.shape[-1] in (1, values.shape[0]):
        return values * scale.reshape(-1, 1)
    if scale.ndim != values.ndim or values.ndim < 2:
        raise Unsupported(f"a scale of shape {scale.shape} for {values.shape}")
    rows, columns = values.shape[-2:]
    if block is None:
        raise Unsupported("a grid of scales without weight_block_size")
    grid = np.repeat(np.repeat(scale, block[0], -2), block[1], -1)
    return values * grid[..., :rows, :columns]


def mxfp4_values(packed, exponents):
    """Two codes a byte, low half first; 32 values under one exponent."""
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)
    values = MXFP4[codes].reshape(*exponents.shape, 32)
    return values * E8M0[exponents][..., None]


def decode(stored, config, is_published):
    """Yields (name, values or Tensor): quantized weights as F32 values, everything else as it is stored."""
    quantization = config.get("quantization_config") or config.get("text_config", {}).get("quantization_config") or {}
    block = quantization.get("weight_block_size")
    for name in stored:
        if any(word in name for word in OTHER_SCHEMES):
            raise Unsupported(f"the scheme of {name}")
    if config.get("quantization"):
        raise Unsupported("quantization of MLX")
    used = set()
    for name, tensor in stored.items():
        stem = name.removesuffix(".weight")
        if name.endswith("_blocks") and tensor.dtype == "U8":
            # Experts: [E, out, groups, 16]; unquantized they are published as [E, in, out].
            scales = stored[name.removesuffix("_blocks") + "_scales"]
            used |= {name, name.removesuffix("_blocks") + "_scales"}
            values = mxfp4_values(tensor.raw, scales.raw)
            values = values.reshape(*values.shape[:2], -1)
            yield name.removesuffix("_blocks"), values.transpose(0, 2, 1) if is_published else values
            continue
        scale = next((s for s in (f"{name}_scale_inv", f"{name}_scale", f"{stem}.scale") if s in stored and s != name), None)
        if scale is None or tensor.dtype in PLAIN_FLOATS:
            continue
        if tensor.dtype not in (*SMALL_FLOATS, "I8"):
            raise Unsupported(f"{tensor.dtype} with a scale: {name}")
        used |= {name, scale, f"{stem}.input_scale", f"{stem}.activation_scale", f"{name}_activation_scale"}
        if tensor.dtype == "I8":
            if stored[scale].dtype != "F8_E8M0":
                raise Unsupported(f"integers with a scale: {name}")
            values = mxfp4_values(tensor.raw.view(np.uint8), stored[scale].raw)
            yield name, values.reshape(tensor.shape[0], -1)
        else:
            is_exponent = stored[scale].dtype in ("U8", "F8_E8M0")
            factors = E8M0[stored[scale].raw] if is_exponent else to_f32(stored[scale])
            yield name, times_scale(to_f32(tensor), factors, (1, 32) if is_exponent and block is None else block)
    for name, tensor in stored.items():
        if name not in used and not name.endswith(("_activation_scale", ".input_scale", ".output_scale")):
            yield name, tensor


def load(request):
    """The state by stored names, in the dtype that is asked for."""
    stored, config = read_checkpoint(request.checkpoint), request.config()
    text = config.get("text_config", {})
    named = next((value for value in (config.get("torch_dtype"), config.get("dtype"), text.get("torch_dtype"), text.get("dtype")) if value), "")
    decoded_dtype = ASKED.get(request.dtype) or CONFIG_DTYPES.get(named, "BF16")
    floats = {tensor.dtype for tensor in stored.values() if tensor.dtype in PLAIN_FLOATS}
    if request.dtype in ("bf16", "f16") and len(floats) > 1:
        raise Unsupported("tensors of several floating dtypes in one: which of them stay F32 is the model's business")
    out = {}
    # A state of no family keeps the shapes of its codes.
    is_published = request.wanted == "export" or "model_type" in config
    for name, content in decode(stored, config, is_published):
        if isinstance(content, np.ndarray):
            out[name] = from_f32(content, decoded_dtype)
        elif request.dtype != "stored" and content.dtype in (*PLAIN_FLOATS, *SMALL_FLOATS):
            asked = ASKED[request.dtype]
            out[name] = content if content.dtype == asked else from_f32(to_f32(content), asked)
        else:
            out[name] = content
    return out


def plain_config(config):
    """The config without a word of a quantization that is gone."""
    out = {name: value for name, value in config.items() if name != "quantization_config"}
    if isinstance(out.get("text_config"), dict):
        out["text_config"] = plain_config(out["text_config"])
    return out


def write(request, tensors):
    if request.wanted == "state":
        write_file(request.output, tensors)
        return
    request.output.mkdir()
    write_file(request.output / "model.safetensors", tensors)
    config = request.config()
    if config:
        (request.output / "config.json").write_text(json.dumps(plain_config(config), indent=2), encoding="utf-8")


def answer(request):
    if request.names != "stored":
        raise Unsupported("names of the running model")
    write(request, load(request))


if __name__ == "__main__":
    run(answer)
