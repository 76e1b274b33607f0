#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA-NeMo/Automodel's state-dict adapters on the CPU: from_hf for a native state, to_hf of that for stored names.

No model is built: the adapters are given what their constructors ask for, out of config.json. Of families without an adapter Automodel's
model itself is built, takes the tensors by their names, strictly, and is asked for its state.
"""
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).parent))
from safetensors_torch import ASKED, write  # noqa: E402
from subject import Unsupported, run  # noqa: E402

MODELS = "nemo_automodel.components.models."
# Family: module, class, activation of the experts.
ADAPTERS = {
    "deepseek_v3": ("deepseek_v3", "DeepSeekV3StateDictAdapter", "swiglu"),
    "ernie4_5_moe": ("ernie4_5", "Ernie4_5_MoeStateDictAdapter", "swiglu"),
    "glm4_moe": ("glm4_moe", "Glm4MoeStateDictAdapter", "swiglu"),
    "gpt_oss": ("gpt_oss", "GPTOSSStateDictAdapter", "swigluoai"),
    "gpt_oss_bf16": ("gpt_oss", "GPTOSSStateDictAdapter", "swigluoai"),
    "hy_mt2": ("hy_mt2", "HyMT2StateDictAdapter", "swiglu"),
    "hy_v3": ("hy_v3", "HYV3StateDictAdapter", "swiglu"),
    "laguna": ("laguna", "LagunaStateDictAdapter", "swiglu"),
    "ling_v2": ("ling_v2", "BailingMoeV2StateDictAdapter", "swiglu"),
    "minimax_m2": ("minimax_m2", "MiniMaxM2StateDictAdapter", "swiglu"),
    "mistral3_fp8_causal": ("mistral3", "Mistral3FP8StateDictAdapter", ""),
    "mistral3_fp8_vlm": ("mistral3", "Mistral3FP8StateDictAdapter", ""),
    "nemotron_v3": ("nemotron_v3", "NemotronV3StateDictAdapter", "relu2"),
    "qwen3_moe": ("qwen3_moe", "Qwen3MoeStateDictAdapter", "swiglu"),
    "qwen3_next": ("qwen3_next", "Qwen3NextStateDictAdapter", "swiglu"),
    "step3p5": ("step3p5", "Step3p5StateDictAdapter", "swiglu"),
}
# Families that Automodel has a model and no adapter for.
WHOLE_MODELS = {"llama": ("llama", "LlamaForCausalLM"), "qwen3": ("qwen3", "Qwen3ForCausalLM")}
EXPERT_COUNTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")


def namespace(value):
    """config.json with its members as attributes, as a config object of transformers has them."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: namespace(member) for name, member in value.items()})
    return [namespace(item) for item in value] if isinstance(value, list) else value


def moe_config(config, activation):
    from nemo_automodel.components.moe.config import MoEConfig

    experts = next((config[name] for name in EXPERT_COUNTS if config.get(name)), 0)
    if not experts:
        return None
    width = config.get("moe_intermediate_size") or config.get("intermediate_size") or 0
    return MoEConfig(
        n_routed_experts=experts, n_shared_experts=config.get("n_shared_experts") or config.get("num_shared_experts") or 0,
        n_activated_experts=config.get("num_experts_per_tok") or 1, n_expert_groups=1, n_limited_groups=1, train_gate=False,
        gate_bias_update_factor=0.0, aux_loss_coeff=0.0, score_func="softmax", route_scale=1.0, dim=config["hidden_size"],
        inter_dim=config.get("intermediate_size") or width, moe_inter_dim=width, norm_topk_prob=False, expert_activation=activation,
        expert_bias=activation == "swigluoai", moe_latent_size=config.get("moe_latent_size"),
    )  # fmt: skip


def make_adapter(request, dtype):
    if request.family not in ADAPTERS:
        raise Unsupported(f"this script knows no adapter and no model of Automodel for {request.family}")
    module, name, activation = ADAPTERS[request.family]
    cls = getattr(importlib.import_module(f"{MODELS}{module}.state_dict_adapter"), name)
    config = request.config()
    if request.family == "mistral3_fp8_causal":
        return cls.for_causal_lm(namespace(config))
    if request.family == "mistral3_fp8_vlm":
        return cls.for_vlm_full(namespace(config))
    from nemo_automodel.components.models.common import BackendConfig

    backend = BackendConfig(attn="sdpa", linear="torch", rms_norm="torch", experts="torch", dispatcher="torch", enable_hf_state_dict_adapter=True)
    return cls(namespace(config), moe_config(config, activation), backend, dtype=dtype)


def load_stored(checkpoint):
    tensors = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def state_of_model(request):
    from nemo_automodel.components.models.common import BackendConfig
    from transformers_subject import settled_config

    config = settled_config(request.checkpoint)
    module, name = WHOLE_MODELS[request.family]
    cls = getattr(importlib.import_module(f"{MODELS}{module}.model"), name)
    model = cls(config, backend=BackendConfig(attn="sdpa", linear="torch", rms_norm="torch", rope_fusion=False))
    told = model.load_state_dict(load_stored(request.checkpoint), strict=False, assign=True)
    left = [name for name in told.missing_keys if not (name == "lm_head.weight" and config.tie_word_embeddings)]
    if left or told.unexpected_keys:
        raise ValueError(f"missing {left}, unexpected {told.unexpected_keys}")
    return model.state_dict()


def answer(request):
    torch.set_num_threads(1)
    if request.dtype == "f16":
        raise Unsupported("F16")
    if request.family in WHOLE_MODELS:
        if request.dtype != "stored":
            raise Unsupported("a model in another dtype")
        write(request, state_of_model(request))
        return
    adapter = make_adapter(request, ASKED.get(request.dtype, torch.bfloat16))
    native = adapter.from_hf(load_stored(request.checkpoint), device_mesh=None)
    tensors = native if request.names == "native" else adapter.to_hf(native, quantization=False)
    # Of an adapter tensors are asked, decoded ones; the config beside them is this script's.
    write(request, {name: tensor for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}, is_decoded=True)


if __name__ == "__main__":
    run(answer)
