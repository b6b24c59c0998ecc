#!/usr/bin/env python3
"""Writes tests/gguf/block_goldens.txt: what the `gguf` package's dequantisers, an independent implementation, make of random blocks.

For each quantised type: the bytes of four blocks (finite scales, every code possible) and the float32 pattern of every element.

    pip install gguf numpy && python3 tools/make_gguf_goldens.py
"""
import pathlib

import numpy as np
from gguf import GGMLQuantizationType
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Type, and the byte offsets of its float16 scales.
TYPES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
BLOCKS = 4


def main():
    rng = np.random.default_rng(20241)
    lines = []
    for name, scales in TYPES.items():
        kind = GGMLQuantizationType[name]
        _, size = GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for at in scales:
            blocks[:, at:at + 2] = rng.normal(0, 0.1, (BLOCKS, 1)).astype(np.float16).view(np.uint8)
        values = dequantize(blocks, kind).astype(np.float32).reshape(-1)
        lines.append(f"{name} {blocks.tobytes().hex()} {values.tobytes().hex()}")
    path = pathlib.Path(__file__).resolve().parent.parent / "tests" / "gguf" / "block_goldens.txt"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
