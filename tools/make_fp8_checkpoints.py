#!/usr/bin/env python3
"""Writes tests/golden/fp8: a tiny Llama in bfloat16 and the same in every form that `quire quantize` writes, with what a float64 model
makes of them. Shares no code with the program: container, rounding (ml_dtypes), scales, model and configs are written again here from the
formats' own descriptions, so that a mistake of the program's reader and writer alike cannot hide.

    pip install numpy ml_dtypes && python3 tools/make_fp8_checkpoints.py

  source/             the bfloat16 checkpoint with its tokenizer
  FORM/               the checkpoint in that form
  expected.json       largest magnitudes over the calibration text; logits of a prompt under every form, on devices with OCP's and with
                      FNUZ's encoding (quark and modelopt have fp8's)
"""
import json
import pathlib
import shutil
import struct

import ml_dtypes
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "fp8"
LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 48, 132, 4, 2, 32, 96
EPS, THETA = 1e-5, 10000.0
WORDS = ("the of and to in a is that for it was on are as with his they at be this from have or by one had not but what all were when we "
         "there can an your which their said if do will each about how up out them then she many some so these would other into has more her "
         "two like him see time could no make than first been its who now people my made over did down only way find use may water long "
         "little very after old work part again").split()
CALIBRATION = ("the people of the water were there and she said that they could make a long way down to it when all the other people had been "
               "out for some time but he did not see how many were into this")
PROMPT = "there was little time for them to find the water so they made a"

E4M3 = ml_dtypes.float8_e4m3fn
BF16 = ml_dtypes.bfloat16
# Form: how weights are scaled, how inputs are, which KV scales it has.
FORMS = {
    "fp8": ("tensor", "static", "tensor"),
    "fp8-dynamic": ("tensor", "token", "none"),
    "fp8-block": ("block", "group", "tensor"),
    "compressed-tensors": ("channel", "token", "head"),
    "quark": ("tensor", "static", "tensor"),
    "modelopt": ("tensor", "static", "tensor"),
}
LINEARS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
INPUT_OF = {"self_attn.q_proj": "qkv_input", "self_attn.k_proj": "qkv_input", "self_attn.v_proj": "qkv_input", "self_attn.o_proj": "o_input",
            "mlp.gate_proj": "gate_up_input", "mlp.up_proj": "gate_up_input", "mlp.down_proj": "down_input"}


def to_e4m3(x):
    """The e4m3 numbers nearest to float32 x, ties to even; past the largest: the largest."""
    return np.clip(np.asarray(x, np.float32), -448, 448).astype(E4M3)


def scale_of(most, largest=448):
    most = np.asarray(most, np.float32)
    return np.where(most == 0, np.float32(1), most / np.float32(largest)).astype(np.float32)


class Ocp:
    """How a device rounds what it computes: OCP's e4m3."""
    largest, factor, codes = 448, np.float32(1), staticmethod(to_e4m3)


class Fnuz:
    """FNUZ's e4m3, which reads OCP's bytes as half their number: scales of a checkpoint are doubled."""
    largest, factor = 240, np.float32(2)

    @staticmethod
    def codes(x):
        return np.clip(np.asarray(x, np.float32), -240, 240).astype(ml_dtypes.float8_e4m3fnuz)


# ---- the 16-bit model ----

def source_weights():
    rng = np.random.default_rng(20295)
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    # Different sizes, so that q, k and v (and gate and up) have different scales.
    shapes = {"self_attn.q_proj": (q, HIDDEN, 0.11), "self_attn.k_proj": (kv, HIDDEN, 0.19), "self_attn.v_proj": (kv, HIDDEN, 0.07), "self_attn.o_proj": (HIDDEN, q, 0.13),
              "mlp.gate_proj": (INNER, HIDDEN, 0.15), "mlp.up_proj": (INNER, HIDDEN, 0.1), "mlp.down_proj": (HIDDEN, INNER, 0.12)}
    out = {"model.embed_tokens.weight": rng.standard_normal((VOCAB, HIDDEN)), "lm_head.weight": 0.3 * rng.standard_normal((VOCAB, HIDDEN)), "model.norm.weight": 1 + 0.1 * rng.standard_normal(HIDDEN)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            out[name + norm + ".weight"] = 1 + 0.2 * rng.standard_normal(HIDDEN)
        for linear, (rows, columns, size) in shapes.items():
            out[name + linear + ".weight"] = size * rng.standard_normal((rows, columns))
    out["model.layers.1.mlp.up_proj.weight"][5] = 0.0  # a channel of zeros has scale 1
    return {name: value.astype(np.float32).astype(BF16) for name, value in out.items()}


# ---- the float64 model ----

def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight.astype(np.float64)


def rotated(x):
    """x [tokens, heads, dim] at positions 0, 1, ...; frequencies and angles are float32 numbers, as in the models' own code."""
    half = HEAD_DIM // 2
    frequency = (1.0 / THETA ** (np.arange(half, dtype=np.float64) * 2 / HEAD_DIM)).astype(np.float32)
    angle = (np.arange(len(x), dtype=np.float32)[:, None] * frequency).astype(np.float64)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def attend(q, k, v):
    scores = np.einsum("qhd,khd->hqk", q, np.repeat(k, HEADS // KV_HEADS, 1)) / np.sqrt(HEAD_DIM)
    scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), np.repeat(v, HEADS // KV_HEADS, 1)).reshape(len(q), -1)


def logits_of(ids, weights, linear, stored, seen=None):
    """linear(name, x): what a linear layer makes of x. stored(layer, part, x): keys or values as the cache gives them back.
    seen: a list that gets the largest magnitudes of each layer."""
    x = weights["model.embed_tokens.weight"].astype(np.float64)[ids]
    for layer in range(LAYERS):
        name, most = f"model.layers.{layer}.", {}
        h = rms_norm(x, weights[name + "input_layernorm.weight"])
        most["qkv_input"] = np.abs(h).max()
        q, k, v = (linear(name + f"self_attn.{p}_proj", h).reshape(len(ids), -1, HEAD_DIM) for p in "qkv")
        q, k = rotated(q), rotated(k)
        most["queries"] = np.abs(q).reshape(len(ids), KV_HEADS, -1).max((0, 2)).tolist()
        most["keys"], most["values"] = np.abs(k).max((0, 2)).tolist(), np.abs(v).max((0, 2)).tolist()
        h = attend(q, stored(layer, "keys", k), stored(layer, "values", v))
        most["o_input"] = np.abs(h).max()
        x = x + linear(name + "self_attn.o_proj", h)
        h = rms_norm(x, weights[name + "post_attention_layernorm.weight"])
        most["gate_up_input"] = np.abs(h).max()
        gate = linear(name + "mlp.gate_proj", h)
        h = gate / (1 + np.exp(-gate)) * linear(name + "mlp.up_proj", h)
        most["down_input"] = np.abs(h).max()
        x = x + linear(name + "mlp.down_proj", h)
        if seen is not None:
            seen.append(most)
    return rms_norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].astype(np.float64).T


# ---- forms ----

def quantised(weight, scaling):
    """Codes and float32 scales of one matrix."""
    w = weight.astype(np.float32)
    rows, columns = w.shape
    if scaling == "tensor":
        scale = scale_of(np.abs(w).max())
        return to_e4m3(w / scale), scale.reshape(())
    if scaling == "channel":
        scale = scale_of(np.abs(w).max(1, keepdims=True))
        return to_e4m3(w / scale), scale
    down, across = -(-rows // 128), -(-columns // 128)
    scale = np.ones((down, across), np.float32)
    codes = np.zeros(w.shape, E4M3)
    for i in range(down):
        for j in range(across):
            part = (slice(128 * i, 128 * (i + 1)), slice(128 * j, 128 * (j + 1)))
            scale[i, j] = scale_of(np.abs(w[part]).max())
            codes[part] = to_e4m3(w[part] / scale[i, j])
    return codes, scale


def wide(codes, scale):
    """The float64 matrix that codes and scales stand for."""
    scale = np.asarray(scale, np.float64)
    if scale.ndim == 2 and scale.shape[1:] != (1,) or scale.ndim == 2 and scale.shape[0] != codes.shape[0]:
        scale = np.repeat(np.repeat(scale, 128, 0), 128, 1)[:codes.shape[0], :codes.shape[1]]
    return codes.astype(np.float64) * scale


def stored_and_read(x, scale, device):
    """float32 x divided by a checkpoint's scale, rounded, and multiplied again."""
    scale = np.asarray(scale, np.float32) * device.factor
    return device.codes(x.astype(np.float32) / scale).astype(np.float64) * scale


def rounded_input(x, how, scale, device):
    """x as the multiplication sees it: e4m3 numbers times their scale."""
    if how == "static":
        return stored_and_read(x, scale, device)
    x = x.astype(np.float32)
    width = x.shape[1] if how == "token" else 128
    out = np.empty(x.shape)
    for begin in range(0, x.shape[1], width):
        part = x[:, begin:begin + width]
        s = scale_of(np.abs(part).max(1, keepdims=True), device.largest)
        out[:, begin:begin + width] = device.codes(part / s).astype(np.float64) * s
    return out


def kv_tensors(form, kv, layer, ranges):
    if kv == "none":
        return {}
    names = {"compressed-tensors": ("k_scale", "v_scale"), "modelopt": ("k_proj.k_scale", "v_proj.v_scale")}.get(form, ("k_proj.output_scale", "v_proj.output_scale"))
    out = {}
    for name, part in zip(names, ("keys", "values")):
        scale = scale_of(ranges[layer][part]).reshape(KV_HEADS, 1, 1) if kv == "head" else scale_of(max(ranges[layer][part]))
        out[f"model.layers.{layer}.self_attn.{name}"] = scale.reshape((1,) if form == "compressed-tensors" and kv == "tensor" else scale.shape)
    return out


def form_tensors(form, source, ranges):
    scaling, inputs, kv = FORMS[form]
    out = {}
    for name, value in source.items():
        module = name.removesuffix(".weight")
        linear = module.split(".", 3)[3] if module.startswith("model.layers.") else ""
        if linear not in LINEARS:
            out[name] = value
            continue
        out[name], scale = quantised(value, scaling)
        out[module + (".weight_scale_inv" if scaling == "block" else ".weight_scale")] = scale
        if inputs == "static":
            out[module + ".input_scale"] = scale_of(ranges[int(module.split(".")[2])][INPUT_OF[linear]])
    for layer in range(LAYERS):
        out.update(kv_tensors(form, kv, layer, ranges))
    return out


def form_logits(form, tensors, ids, device):
    scaling, inputs, kv = FORMS[form]
    def linear(module, x):
        scale = tensors[module + (".weight_scale_inv" if scaling == "block" else ".weight_scale")]
        return rounded_input(x, inputs, tensors.get(module + ".input_scale"), device) @ wide(tensors[module + ".weight"], scale).T
    def stored(layer, part, x):
        if kv == "none":
            return x.astype(np.float32).astype(BF16).astype(np.float64)
        scale = list(kv_tensors(form, kv, layer, RANGES).values())[part == "values"].reshape(-1, 1)
        return stored_and_read(x, scale, device)
    return logits_of(ids, tensors, linear, stored)


# ---- files ----

TYPES = {np.dtype(np.float32): "F32", np.dtype(BF16): "BF16", np.dtype(E4M3): "F8_E4M3"}


def write_safetensors(path, tensors):
    order = sorted(tensors, key=lambda n: (-tensors[n].dtype.itemsize, n))
    header, at, data = {"__metadata__": {"format": "pt"}}, 0, b""
    for name in order:
        raw = np.ascontiguousarray(tensors[name]).tobytes()
        header[name] = {"dtype": TYPES[tensors[name].dtype], "shape": list(tensors[name].shape), "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def quantization_config(form):
    kv = FORMS[form][2]
    if form.startswith("fp8"):
        out = {"quant_method": "fp8", "activation_scheme": "static" if form == "fp8" else "dynamic", "ignored_layers": ["lm_head"]}
        if form == "fp8-block":
            out["weight_block_size"] = [128, 128]
        return out | ({"kv_cache_scheme": "static"} if kv != "none" else {})
    if form == "compressed-tensors":
        float8 = {"num_bits": 8, "type": "float", "symmetric": True}
        group = {"targets": ["Linear"], "weights": float8 | {"strategy": "channel", "dynamic": False}, "input_activations": float8 | {"strategy": "token", "dynamic": True}, "output_activations": None}
        return {"quant_method": form, "format": "float-quantized", "quantization_status": "compressed", "config_groups": {"group_0": group}, "ignore": ["lm_head"],
                "kv_cache_scheme": float8 | {"strategy": "attn_head", "dynamic": False}}
    if form == "modelopt":
        return {"quant_method": form, "quant_algo": "FP8", "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}
    spec = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False, "ch_axis": None, "group_size": None, "symmetric": True, "round_method": "half_even", "scale_type": "float",
            "observer_cls": "PerTensorMinMaxObserver"}
    plain = {"weight": spec, "input_tensors": spec, "output_tensors": None, "bias": None, "target_device": None}
    cached = plain | {"output_tensors": spec}
    return {"quant_method": form, "quant_mode": "eager_mode", "global_quant_config": plain, "layer_quant_config": {"*k_proj": cached, "*v_proj": cached}, "layer_type_quant_config": {},
            "softmax_quant_spec": None, "algo_config": None, "exclude": ["lm_head"],
            "export": {"kv_cache_group": ["*k_proj", "*v_proj"], "pack_method": "reorder", "weight_format": "real_quantized", "weight_merge_groups": None, "min_kv_scale": 0.0}}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def main():
    global RANGES
    shutil.rmtree(OUT, ignore_errors=True)
    assert len(WORDS) == len(set(WORDS)) == VOCAB - 1, len(WORDS)
    ids = {"<unk>": 0} | {word: i + 1 for i, word in enumerate(WORDS)}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCAB, "max_position_embeddings": 1024, "rms_norm_eps": EPS, "rope_theta": THETA, "hidden_act": "silu",
              "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": None, "eos_token_id": 2}
    source = source_weights()
    (OUT / "source").mkdir(parents=True)
    write_json(OUT / "source" / "config.json", config)
    write_safetensors(OUT / "source" / "model.safetensors", source)
    write_json(OUT / "source" / "tokenizer.json", {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
                                                  "post_processor": None, "decoder": None, "model": {"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"}})
    write_json(OUT / "source" / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "model_max_length": 1024})

    text = [ids.get(word, 0) for word in CALIBRATION.split()]
    prompt = [ids.get(word, 0) for word in PROMPT.split()]
    wide_linear = lambda module, x: x @ source[module + ".weight"].astype(np.float64).T
    in_16_bit = lambda layer, part, x: x.astype(np.float32).astype(BF16).astype(np.float64)
    RANGES = []
    logits_of(text, source, wide_linear, in_16_bit, RANGES)
    expected = {"calibration_text": CALIBRATION, "calibration_ids": text, "ranges": RANGES, "prompt": PROMPT, "prompt_ids": prompt,
                "logits": {"source": np.round(logits_of(prompt, source, wide_linear, in_16_bit), 6).tolist()}}
    for form in FORMS:
        (OUT / form).mkdir()
        tensors = form_tensors(form, source, RANGES)
        write_safetensors(OUT / form / "model.safetensors", tensors)
        write_json(OUT / form / "config.json", config | {"quantization_config": quantization_config(form)})
        logits = {name: np.round(form_logits(form, tensors, prompt, device), 6).tolist() for name, device in ((form, Ocp), (form + " fnuz", Fnuz))}
        if form in ("quark", "modelopt"):
            assert list(logits.values()) == [expected["logits"]["fp8"], expected["logits"]["fp8 fnuz"]]
        else:
            expected["logits"] |= logits
    write_json(OUT / "modelopt" / "hf_quant_config.json", {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}})
    (OUT / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
