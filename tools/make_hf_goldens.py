#!/usr/bin/env python3
"""Writes the goldens that tests/golden compares with: what Hugging Face transformers computes for the same weights and token ids.

    python3 tools/make_hf_goldens.py models/gsm-tiny tests/golden/gsm_tiny.json --small-models tests/golden/models

Needs torch, transformers and numpy (any recent ones; the versions are written into the files); no network, no GPU. The seeds are fixed, so
on one machine with one set of versions the files come out the same. With --small-models it also makes the random models that cover what
MODEL does not: rope scalings, biases, untied embeddings, other head counts, the other families. Their folders hold config.json,
model.safetensors (float32) and logprobs.json. --only names the ones to make, and leaves MODEL's goldens alone.

The JSON of a scored prompt: "ids"; "next": for each position p but the last the log-probability of ids[p + 1]; "top": position ->
[[token, log-probability] * 20], descending, for every fifth position and the last. Log-probabilities are float32's, to six decimals.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import struct
import sys
import time

for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ[variable] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import transformers

TOP, TOP_STRIDE, GREEDY_TOKENS = 20, 5, 64
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def versions() -> dict:
    return {"torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__}


def load_model(folder: str, dtype: torch.dtype):
    options = {"attn_implementation": "eager", "local_files_only": True}
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options)
    except TypeError:  # transformers 4 calls it torch_dtype
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=dtype, **options)
    model = model.eval()
    wrong = {str(p.dtype) for p in model.parameters()} - {str(dtype)}
    if wrong:
        sys.exit(f"{folder}: loaded as {sorted(wrong)}, asked for {dtype}")
    return model


def rounded(x: float) -> float:
    return round(float(x), 6)


@torch.no_grad()
def score(model, ids: list[int]) -> dict:
    """Log-probabilities of one prompt in one forward pass over the whole of it."""
    logprobs = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0].float(), dim=-1)
    following = [rounded(logprobs[p, ids[p + 1]]) for p in range(len(ids) - 1)]
    top = {}
    for p in sorted({*range(0, len(ids), TOP_STRIDE), len(ids) - 1}):
        values, tokens = logprobs[p].sort(descending=True, stable=True)  # stable: ties by token id
        top[str(p)] = [[int(t), rounded(v)] for t, v in zip(tokens[:TOP], values[:TOP])]
    return {"ids": ids, "next": following, "top": top}


@torch.no_grad()
def continue_greedily(model, ids: list[int]) -> dict:
    """GREEDY_TOKENS tokens whatever they are (no end token stops it), and at each step how far the second choice was behind."""
    out, gaps, cache, step_ids = [], [], None, torch.tensor([ids])
    for _ in range(GREEDY_TOKENS):
        result = model(step_ids, past_key_values=cache, use_cache=True)
        cache, logits = result.past_key_values, result.logits[0, -1].float()
        values, tokens = logits.sort(descending=True, stable=True)
        out.append(int(tokens[0]))
        gaps.append(round(float(values[0] - values[1]), 4))
        step_ids = torch.tensor([[out[-1]]])
    return {"tokens": out, "gaps": gaps}


# ---- prompts of MODEL -----------------------------------------------------------------------------------------------------------------

def problem_texts(problems, seed: int, count: int, shots: int) -> list[str]:
    """Prompts in the evaluation's own form: `shots` worked problems, then a question to answer."""
    r = random.Random(seed)
    texts = []
    for _ in range(count):
        worked = "".join(f"Question: {q}\nAnswer: {a}\n\n" for q, a, _ in (problems.problem(r) for _ in range(shots)))
        texts.append(worked + f"Question: {problems.problem(r)[0]}\nAnswer:")
    return texts


def chat_texts(problems, seed: int, count: int) -> list[str]:
    r = random.Random(seed)
    return [f"<|im_start|>user\n{problems.problem(r)[0]}<|im_end|>\n<|im_start|>assistant\n" for _ in range(count)]


def scored_prompts(problems, encode) -> list[list[int]]:
    """20 prompts of 5 to 600 tokens: 5-shot ones, shorter ones, chat, cut ones and token ids without any sense."""
    prompts = [encode(t) for t in problem_texts(problems, 101, 4, 5)]
    for shots, seed in ((0, 102), (1, 103), (2, 104), (3, 105)):
        prompts += [encode(t) for t in problem_texts(problems, seed, 2, shots)]
    prompts += [encode(t) for t in chat_texts(problems, 106, 2)]
    long = encode("".join(problem_texts(problems, 107, 1, 12)))
    prompts += [long[:n] for n in (5, 16, 17, 600)]
    r = random.Random(108)
    prompts += [[r.randrange(3, 300) for _ in range(n)] for n in (33, 128)]
    return prompts


def greedy_prompts(problems, encode) -> list[list[int]]:
    texts = []
    for i, count in enumerate((60, 50, 40)):
        texts += problem_texts(problems, 201 + i, count, i)
    texts += problem_texts(problems, 204, 10, 5) + chat_texts(problems, 205, 40)
    return [encode(t) for t in texts]


# Worker state: each process loads the model once and uses one thread, since matrices of this size gain nothing from more.
_model = None


def start_worker(folder: str, dtype: str) -> None:
    global _model
    torch.set_num_threads(1)
    _model = load_model(folder, DTYPES[dtype])


def score_in_worker(ids: list[int]) -> dict:
    return score(_model, ids)


def continue_in_worker(ids: list[int]) -> dict:
    return continue_greedily(_model, ids)


def main_goldens(folder: pathlib.Path, out: pathlib.Path) -> None:
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    import problems
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    to_score, to_continue = scored_prompts(problems, encode), greedy_prompts(problems, encode)
    document = {"made_with": versions(), "model": folder.name, "greedy_prompts": to_continue}
    spawn = multiprocessing.get_context("spawn")
    for dtype in DTYPES:
        start = time.time()
        with spawn.Pool(os.cpu_count(), start_worker, (str(folder), dtype)) as pool:
            scored = pool.map(score_in_worker, to_score, chunksize=1)
            continued = pool.map(continue_in_worker, to_continue, chunksize=5)
        document[dtype] = {"scored": scored, "greedy": continued}
        print(f"{dtype}: {len(scored)} scored prompts, {len(continued)} continuations, {time.time() - start:.0f} s", flush=True)
    write_json(out, document)


# ---- small random models --------------------------------------------------------------------------------------------------------------

BASE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "float32",
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "vocab_size": 96, "max_position_embeddings": 256, "rms_norm_eps": 1e-05, "attention_bias": False, "mlp_bias": False,
    "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
}

# name -> changes to BASE. Older ("rope_theta", "rope_scaling") and newer ("rope_parameters") forms take turns.
SMALL_MODELS = {
    "rope_llama3": {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                        "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
    "rope_linear": {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
    "rope_yarn": {"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
    "rope_yarn_mscale": {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 64,
                                             "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 0.3, "truncate": False}},
    "rope_dynamic": {"max_position_embeddings": 64, "rope_theta": 10000.0, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "untied_bias": {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4, "rope_theta": 10000.0},
    "one_kv_head": {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "tie_word_embeddings": False,
                    "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}},
}

PLAIN = {key: value for key, value in BASE.items() if key not in ("attention_bias", "mlp_bias", "hidden_act")} | {"num_hidden_layers": 3}
GEMMA = PLAIN | {"num_hidden_layers": 4, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 20}


def family(name: str, changes: dict, base: dict = PLAIN) -> dict:
    return base | {"architectures": [name + "ForCausalLM"], "model_type": {"Gemma3": "gemma3_text"}.get(name, name.lower())} | changes


# Windows, caps and periods are small, so that prompts of 200 tokens feel them all.
FAMILIES = {
    "mistral": family("Mistral", {"sliding_window": 24, "rope_theta": 1000.0, "tie_word_embeddings": False}),
    "qwen2": family("Qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1, "rope_theta": 1000.0}),
    "qwen3": family("Qwen3", {"attention_bias": True, "use_sliding_window": False, "sliding_window": 20, "max_window_layers": 1, "rope_theta": 1000.0}),
    "gemma2": family("Gemma2", {"query_pre_attn_scalar": 24, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 8.0, "rope_theta": 1000.0}, GEMMA),
    "gemma3_older": family("Gemma3", {"query_pre_attn_scalar": 24, "sliding_window_pattern": 3, "rope_theta": 100000.0, "rope_local_base_freq": 500.0,
                                      "rope_scaling": {"rope_type": "linear", "factor": 4.0}}, GEMMA),
    "gemma3_newer": family("Gemma3", {"query_pre_attn_scalar": 24, "layer_types": ["full_attention", "sliding_attention"] * 2, "final_logit_softcapping": 8.0,
                                      "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100000.0},
                                                          "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}}, GEMMA),
}

# The served maximum length and the prompts' lengths. Hugging Face recomputes "dynamic" frequencies from each prompt, an engine fixes them
# from the maximum length it serves: the two agree on prompts of exactly that length.
SERVED = {"rope_dynamic": (128, [128, 128])}
SERVED_DEFAULT = (256, [5, 40, 200])


def has_bias(config: dict, layer: str) -> bool:
    if layer.startswith("mlp"):
        return config.get("mlp_bias", False)
    return config.get("attention_bias", False) or config["model_type"] == "qwen2" and "o_proj" not in layer


def parameter_shapes(config: dict) -> dict[str, list[int]]:
    gemma = "gemma" in config["model_type"]
    h, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    q, kv = config["num_attention_heads"] * config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
    shapes = {"model.embed_tokens.weight": [vocab, h]}
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for name, rows, cols in (("self_attn.q_proj", q, h), ("self_attn.k_proj", kv, h), ("self_attn.v_proj", kv, h), ("self_attn.o_proj", h, q),
                                 ("mlp.gate_proj", inner, h), ("mlp.up_proj", inner, h), ("mlp.down_proj", h, inner)):
            shapes[at + name + ".weight"] = [rows, cols]
            if has_bias(config, name):
                shapes[at + name + ".bias"] = [rows]
        shapes[at + "input_layernorm.weight"] = shapes[at + "post_attention_layernorm.weight"] = [h]
        if gemma:
            shapes[at + "pre_feedforward_layernorm.weight"] = shapes[at + "post_feedforward_layernorm.weight"] = [h]
        if config["model_type"] in ("qwen3", "gemma3_text"):
            shapes[at + "self_attn.q_norm.weight"] = shapes[at + "self_attn.k_norm.weight"] = [config["head_dim"]]
    shapes["model.norm.weight"] = [h]
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [vocab, h]
    return shapes


def random_weights(config: dict, seed: int) -> dict[str, np.ndarray]:
    """Large enough that scores differ between keys and every parameter shows in the logits."""
    r = np.random.RandomState(seed)  # the legacy generator: its stream never changes between numpy versions
    weights = {}
    gemma = "gemma" in config["model_type"]  # whose norms multiply by 1 + weight
    for name, shape in parameter_shapes(config).items():
        deviation = 0.2 if name.endswith(".bias") else 0.3 if len(shape) == 2 or gemma else 0.1
        mean = 1.0 if "norm" in name and not gemma else 0.0
        weights[name] = (mean + deviation * r.standard_normal(shape)).astype("<f4")
    return weights


def write_safetensors(path: pathlib.Path, weights: dict[str, np.ndarray]) -> None:
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, array in weights.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in weights.values()))


def small_model_goldens(folder: pathlib.Path, only: list[str]) -> None:
    torch.set_num_threads(1)
    configs = {name: BASE | changes for name, changes in SMALL_MODELS.items()} | FAMILIES
    for seed, (name, config) in enumerate(configs.items(), start=301):
        if only and name not in only:
            continue
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        (target / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        write_safetensors(target / "model.safetensors", random_weights(config, seed))
        model = load_model(str(target), torch.float32)
        check_loaded(model, config, seed)
        max_model_len, lengths = SERVED.get(name, SERVED_DEFAULT)
        r = random.Random(seed)
        scored = [score(model, [r.randrange(config["vocab_size"]) for _ in range(n)]) for n in lengths]
        write_json(target / "logprobs.json", {"made_with": versions(), "max_model_len": max_model_len, "scored": scored})


def check_loaded(model, config: dict, seed: int) -> None:
    """That the library took every tensor of the file: it only warns about ones it did not."""
    state = model.state_dict()
    for name, array in random_weights(config, seed).items():
        if not torch.equal(state[name], torch.from_numpy(array)):
            sys.exit(f"{name} was not loaded as written")


def write_json(path: pathlib.Path, document: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    print(f"{path}: {path.stat().st_size} bytes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="folder of a checkpoint with problems.py beside it (models/gsm-tiny)")
    parser.add_argument("out", type=pathlib.Path, help="JSON file to write")
    parser.add_argument("--small-models", type=pathlib.Path, help="folder for the random models and their goldens")
    parser.add_argument("--only", nargs="+", default=[], help="names of random models to make, and nothing else")
    arguments = parser.parse_args()
    if not (arguments.model / "config.json").is_file():
        parser.error(f"{arguments.model} holds no config.json")
    if arguments.small_models:
        small_model_goldens(arguments.small_models, arguments.only)
    if not arguments.only:
        main_goldens(arguments.model.resolve(), arguments.out)


if __name__ == "__main__":
    main()
