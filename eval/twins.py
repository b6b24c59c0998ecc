"""Twins of a Hugging Face checkpoint with one bfloat16 safetensors file:

    twins.py scales MODEL OUT SCALES.json   the same weights, and the scales of an FP8 KV cache beside them; SCALES.json is {"k": [...], "v": [...]}, one number a layer
    twins.py hot MODEL OUT                  the same answers from a 16-bit KV cache, by keys and values that an FP8 cache without their scales cannot hold

The hot twin's k_proj is multiplied by a power of two and its q_proj divided by it, and v_proj and o_proj likewise, by other powers in every layer. Powers of two are
exact in bfloat16 and commute with rotary embeddings, so 16-bit answers stay the same bits, while a scale that is lost, doubled, swapped or taken from another layer ruins
them. KV scales that the checkpoint has are multiplied along."""
import array
import json
import pathlib
import re
import shutil
import struct
import sys

FILE = "model.safetensors"
# Exponents of keys and of values, repeated over the layers: neighbours differ much, and no two layers have the same pair.
KEY_POWERS = (9, -11, 10, -9)
VALUE_POWERS = (8, -10, -8, 11, -9)


class Tensors:
    """A safetensors file in memory: name -> (dtype, shape, bytes)."""

    def __init__(self, path: pathlib.Path):
        raw = path.read_bytes()
        size, = struct.unpack("<Q", raw[:8])
        self.head = json.loads(raw[8:8 + size])
        self.metadata = self.head.pop("__metadata__", None)
        data = memoryview(raw)[8 + size:]
        self.tensors = {name: (t["dtype"], t["shape"], bytes(data[t["data_offsets"][0]:t["data_offsets"][1]])) for name, t in self.head.items()}

    def write(self, path: pathlib.Path) -> None:
        head, at = {} if self.metadata is None else {"__metadata__": self.metadata}, 0
        for name, (dtype, shape, data) in self.tensors.items():
            head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in self.tensors.values()))


def copy_with(model: pathlib.Path, out: pathlib.Path, change) -> pathlib.Path:
    """`change` gets the tensors; every other file stays as it is."""
    shutil.copytree(model, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(FILE))
    tensors = Tensors(model / FILE)
    change(tensors)
    tensors.write(out / FILE)
    return out


def scale_name(layer: int, part: str) -> str:
    return f"model.layers.{layer}.self_attn.attn.{part}_scale"


def with_scales(model: pathlib.Path, out: pathlib.Path, keys: list[float], values: list[float]) -> pathlib.Path:
    """float32 scales under vLLM's own names, one a layer."""
    def change(tensors: Tensors) -> None:
        for part, scales in (("k", keys), ("v", values)):
            for layer, scale in enumerate(scales):
                tensors.tensors[scale_name(layer, part)] = ("F32", [], struct.pack("<f", scale))
    return copy_with(model, out, change)


def times_power(data: bytes, power: int, name: str) -> bytes:
    """bfloat16 numbers times 2**power. What becomes too small is zero; what becomes too large is an error."""
    def one(bits: int) -> int | None:
        exponent = bits >> 7 & 0xFF
        if exponent == 0 or exponent + power <= 0:
            return bits & 0x8000
        return None if exponent + power > 254 else bits + (power << 7)
    table = [one(bits) for bits in range(1 << 16)]
    numbers = array.array("H", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    changed = [table[bits] for bits in numbers]
    if None in changed:
        raise ValueError(f"{name}: a weight times 2**{power} is no bfloat16")
    return struct.pack(f"<{len(changed)}H", *changed)


def powers_of(layer: int) -> dict[str, int]:
    key, value = KEY_POWERS[layer % len(KEY_POWERS)], VALUE_POWERS[layer % len(VALUE_POWERS)]
    return {"q_proj.weight": -key, "k_proj.weight": key, "v_proj.weight": value, "o_proj.weight": -value, "attn.k_scale": key, "attn.v_scale": value}


def hot_twin(model: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    def change(tensors: Tensors) -> None:
        for name, (dtype, shape, data) in tensors.tensors.items():
            found = re.fullmatch(r"model\.layers\.(\d+)\.self_attn\.([\w.]+)", name)
            power = powers_of(int(found[1])).get(found[2], 0) if found else 0
            if power == 0:
                continue
            if dtype == "F32":  # a scale
                data = struct.pack(f"<{len(data) // 4}f", *(x * 2.0**power for x in struct.unpack(f"<{len(data) // 4}f", data)))
            elif dtype == "BF16":
                data = times_power(data, power, name)
            else:
                raise ValueError(f"{name}: {dtype}; hot twins are made of bfloat16 weights and float32 scales")
            tensors.tensors[name] = (dtype, shape, data)
    return copy_with(model, out, change)


def main(arguments: list[str]) -> int:
    if len(arguments) == 4 and arguments[0] == "scales":
        scales = json.loads(pathlib.Path(arguments[3]).read_text())
        with_scales(pathlib.Path(arguments[1]), pathlib.Path(arguments[2]), scales["k"], scales["v"])
    elif len(arguments) == 3 and arguments[0] == "hot":
        hot_twin(pathlib.Path(arguments[1]), pathlib.Path(arguments[2]))
    else:
        sys.stderr.write(__doc__ + "\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
