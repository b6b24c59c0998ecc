#!/usr/bin/env python3
"""Writes tests/model/rope_goldens.json: rotary frequencies in 50-digit decimal arithmetic, from the published definitions.

Shares no formula rearrangement with src/model/rope_table.cc: wavelengths instead of turns for llama3 (Meta's reference code), a
bisection instead of the closed form for yarn's correction range (arXiv:2309.00071, in the index form of the authors' code), and the
per-frequency form of NTK-aware scaling instead of a changed base. Standard library only:

    python3 tools/make_rope_goldens.py
"""
import json
import pathlib
from decimal import Decimal as D, ROUND_CEILING, ROUND_FLOOR, getcontext

getcontext().prec = 50
PI = D("3.14159265358979323846264338327950288419716939937510582097494459")


def power(base, exponent):
    return (D(base).ln() * exponent).exp()


def frequency(theta, pair, dim):
    return power(theta, D(-2) * pair / dim)


def default(rope, dim, served, positions):
    return [frequency(rope["theta"], j, dim) for j in range(dim // 2)], D(1)


def linear(rope, dim, served, positions):
    return [f / D(rope["factor"]) for f in default(rope, dim, served, positions)[0]], D(1)


def dynamic(rope, dim, served, positions):
    length = max(served, positions)
    alpha = D(rope["factor"]) * length / positions - (D(rope["factor"]) - 1)
    return [frequency(rope["theta"], j, dim) * power(alpha, D(-2) * j / (dim - 2)) for j in range(dim // 2)], D(1)


def llama3(rope, dim, served, positions):
    original, factor, low, high = (D(str(rope[k])) for k in ("original_max_position_embeddings", "factor", "low_freq_factor", "high_freq_factor"))
    out = []
    for f in default(rope, dim, served, positions)[0]:
        wavelength = 2 * PI / f
        if wavelength < original / high:
            out.append(f)
        elif wavelength > original / low:
            out.append(f / factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            out.append((1 - smooth) * f / factor + smooth * f)
    return out, D(1)


def pair_with_turns(theta, dim, original, turns):
    """The real j at which a wave makes `turns` turns over the original length; turns fall as j grows."""
    low, high = D(-4 * dim), D(4 * dim)
    for _ in range(180):
        middle = (low + high) / 2
        if original * frequency(theta, middle, dim) / (2 * PI) > turns:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def yarn(rope, dim, served, positions):
    original, factor = D(rope.get("original_max_position_embeddings", positions)), D(str(rope["factor"]))
    first = pair_with_turns(rope["theta"], dim, original, D(str(rope.get("beta_fast", 32))))
    last = pair_with_turns(rope["theta"], dim, original, D(str(rope.get("beta_slow", 1))))
    if rope.get("truncate", True):
        first, last = first.to_integral_value(ROUND_FLOOR), last.to_integral_value(ROUND_CEILING)
    first, last = max(first, D(0)), min(last, D(dim - 1))
    if first == last:
        last += D("0.001")
    out = []
    for j, f in enumerate(default(rope, dim, served, positions)[0]):
        interpolated = min(max((j - first) / (last - first), D(0)), D(1))
        out.append(interpolated * f / factor + (1 - interpolated) * f)

    def magnitude(weight):
        return D(1) if factor <= 1 else D("0.1") * weight * factor.ln() + 1

    if "attention_factor" in rope:
        return out, D(str(rope["attention_factor"]))
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return out, magnitude(D(str(rope["mscale"]))) / magnitude(D(str(rope["mscale_all_dim"])))
    return out, magnitude(D(1))


KINDS = {"default": default, "linear": linear, "dynamic": dynamic, "llama3": llama3, "yarn": yarn}

# (head_dim, max_position_embeddings, served length, theta, rope fields beside theta)
LLAMA31 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
CASES = [
    (64, 2048, 2048, 10000, {"rope_type": "default"}),
    (128, 8192, 8192, 500000, {"rope_type": "default"}),
    (128, 4096, 16384, 10000, {"rope_type": "linear", "factor": 4.0}),
    (64, 2048, 2048, 10000, {"rope_type": "linear", "factor": 2.5}),
    (64, 2048, 1024, 10000, {"rope_type": "dynamic", "factor": 2.0}),
    (64, 2048, 2048, 10000, {"rope_type": "dynamic", "factor": 2.0}),
    (64, 2048, 4096, 10000, {"rope_type": "dynamic", "factor": 2.0}),
    (128, 4096, 32768, 10000, {"rope_type": "dynamic", "factor": 8.0}),
    (128, 131072, 131072, 500000, LLAMA31),
    (64, 131072, 131072, 500000, {**LLAMA31, "factor": 32.0}),
    (64, 131072, 10240, 500000, {**LLAMA31, "low_freq_factor": 2.0, "high_freq_factor": 16.0}),
    (128, 32768, 131072, 1000000, YARN),
    (128, 4096, 65536, 10000, {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}),
    (64, 2048, 4096, 10000, {"rope_type": "yarn", "factor": 2.0}),
    (64, 32768, 131072, 1000000, {**YARN, "attention_factor": 1.25}),
    (64, 163840, 163840, 10000, {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.707, "mscale_all_dim": 1.0}),
    (64, 163840, 163840, 10000, {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.707}),
    (64, 131072, 131072, 150000, {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}),
    (128, 32768, 131072, 1000000, {**YARN, "beta_fast": 16.0, "beta_slow": 2.0}),
    (32, 64, 64, 10000, {"rope_type": "yarn", "factor": 1.0, "original_max_position_embeddings": 64}),
    (16, 358, 1432, 10, {"rope_type": "yarn", "factor": 4.0, "beta_slow": 0.1}),
    (16, 4, 4, 10000, {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4}),
]


def main():
    cases = []
    for dim, positions, served, theta, fields in CASES:
        frequencies, scale = KINDS[fields["rope_type"]]({**fields, "theta": theta}, dim, served, positions)
        cases.append({
            "head_dim": dim, "max_position_embeddings": positions, "max_model_len": served, "rope_theta": float(theta), "rope": fields,
            "attention_scale": float(scale), "inv_freq": [float(f) for f in frequencies],
        })
    lines = ",\n".join(json.dumps(case) for case in cases)
    target = pathlib.Path(__file__).resolve().parent.parent / "tests" / "model" / "rope_goldens.json"
    target.write_text('{"cases": [\n' + lines + "\n]}\n")
    print(f"{target}: {len(cases)} cases")


if __name__ == "__main__":
    main()
