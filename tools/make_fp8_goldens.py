#!/usr/bin/env python3
"""Writes tests/reference/fp8_goldens.txt: what ml_dtypes, a third implementation, makes of the FP8 encodings.

For each encoding: the 256 values, and the code of every float16 and bfloat16 pattern. ml_dtypes does not saturate, so what it turns
into NaN or infinity is written as the largest finite magnitude of that sign; NaN inputs are left out of the digest.

    pip install ml_dtypes numpy && python3 tools/make_fp8_goldens.py
"""
import pathlib

import ml_dtypes
import numpy as np

ENCODINGS = {
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, 0x7E),
    "float8_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 0x7F),
    "float8_e5m2": (ml_dtypes.float8_e5m2, 0x7B),
}
INPUTS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def codes(inputs, encoding, largest):
    """The saturated codes of all 65,536 patterns of a 16-bit type; 0 for NaN."""
    values = np.arange(65536, dtype=np.uint16).view(inputs).astype(np.float32)
    with np.errstate(all="ignore"):
        out = values.astype(encoding)
    bits = out.view(np.uint8).copy()
    lost = ~np.isfinite(out.astype(np.float32)) & ~np.isnan(values)
    bits[lost] = np.where(np.signbit(values[lost]), largest | 0x80, largest)
    bits[np.isnan(values)] = 0
    return bits


def main():
    lines = []
    for name, (encoding, largest) in ENCODINGS.items():
        table = np.arange(256, dtype=np.uint8).view(encoding).astype(np.float64)
        lines.append(name + " values " + " ".join("nan" if np.isnan(v) else float(v).hex() for v in table))
        for input_name, inputs in INPUTS.items():
            bits = codes(inputs, encoding, largest)
            # Run lengths: neighbours mostly share a code.
            runs, start = [], 0
            for i in range(1, 65537):
                if i == 65536 or bits[i] != bits[start]:
                    runs.append(f"{i - start}x{bits[start]:02x}")
                    start = i
            lines.append(f"{name} {input_name} " + " ".join(runs))
    target = pathlib.Path(__file__).resolve().parent.parent / "tests" / "reference" / "fp8_goldens.txt"
    target.write_text("\n".join(lines) + "\n")
    print(target.name, target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
