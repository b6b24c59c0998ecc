#!/usr/bin/env python3
"""Writes tests/text/goldens/smollm2.gguf and smollm2.json from a SmolLM2 GGUF file: its vocabulary and chat template without tensors,
llama.cpp's ids of 500 texts and its server's chats of each of them, and what Jinja2, set up as transformers sets it up, renders of a few chats.

    tools/llama_cpp/build.sh LLAMA_CPP_FOLDER /tmp/tokenise && tools/llama_cpp/build_tools.sh LLAMA_CPP_FOLDER /tmp/llama.cpp llama-server
    pip install gguf jinja2 && python3 tools/make_gguf_text_goldens.py SmolLM2-135M-Instruct.Q4_1.gguf /tmp/tokenise /tmp/llama.cpp/bin

Texts are encoded without first and last tokens and with llama.cpp's parse_special off: the text of a special token is ordinary text.
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import gguf
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "eval"))
from llama_cpp_server import LlamaCppServer  # noqa: E402

OUT = ROOT / "tests" / "text" / "goldens"
NUM_TEXTS = 500

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "It's what I'll do, we've said; they're sure you'd say he's right, I'm told.", "IT'S WHAT I'LL DO, WE'VE SAID.", "don't Don't DON'T",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.", "Portez ce vieux whisky au juge blond qui fume.", "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Pchnąć w tę łódź jeża lub ośm skrzyń fig.", "Árvíztűrő tükörfúrógép.", "Съешь же ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה", "نص حكيم له سر قاطع وذو شأن عظيم", "الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ", "सभी मनुष्य जन्म से स्वतंत्र तथा मर्यादा में समान होते हैं।", "মানুষ স্বাধীনভাবে সমান মর্যাদা নিয়ে জন্মগ্রহণ করে।", "எல்லா மனிதரும் சுதந்திரமாகவே பிறக்கின்றனர்",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน", "人人生而自由，在尊严和权利上一律平等。", "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。", "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "ሁሉም ሰዎች ነፃ ሆነው ይወለዳሉ", "ყველა ადამიანი იბადება თავისუფალი", "Բոլոր մարդիկ ծնվում են ազատ", "ᏂᎦᏓ ᎠᏂᏴᏫ", "𐌰𐌻𐌻𐌰𐌹 𐌼𐌰𐌽𐌽𐌰", "Tất cả mọi người sinh ra đều được tự do", "İstanbul'da ılık ışık",
    "e\u0301 vs é, n\u0303 vs ñ, A\u030a vs Å", "ﬁ ﬂ ﬀ Ⅷ ½ ² ㎏ Ｆｕｌｌ", "ẞß ſ İi Iı", "‘quotes’ “double” «guillemets» „low“", "em—dash en–dash hy‑phen soft\u00adhyphen", "a…b · c • d † e ‡ f § g ¶",
]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️", "☃", "🧑🏿‍🚀", "1️⃣", "🫠🫡", "©️ ® ™", "🤷‍♂️", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "♟︎", "👨🏻‍💻 codes 🐍", "🎉🎉🎉🎉", "🙂🙃🙂", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "a😀b", " 😀 ", "😀\n😀"]
SPACES = [" ", "  ", "   ", "        ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", "\r", " \n", "\n ", " \n \n ", "a  b", "a   b", " a", "  a", "a ", "a  ", "a\tb", "\ta", "a\n\nb", "a \n b", "\u00a0", "a\u00a0b", "\u2003\u2009a", "\u3000全角", "\u200ba\u200bb", "\ufeffbom", "a\u2028b\u2029c",
          "\v\f", " \t \n\r", "x" + " " * 33 + "y", "x" + "\n" * 17, " " * 100, "\u1680a\u180eb", "tab\tin\tthe\tmiddle ", "\u0085next", "a\u202fb"]
NUMBERS = ["0", "7", "12", "123", "1234", "12345678901234567890", "3.14159", "1,000,000", "1e-10", "-42", "+1", "0x1F", "0b1010", "1/2", "50%", "$19.99", "€5", "2024-05-17T12:34:56Z", "192.168.0.1", "٠١٢٣", "१२३", "１２３", "①②③", "Ⅳ", "x²+y³", "1st 2nd 3rd", "12 34 56", " 9", "a1b2c3", "1a", "v1.2.3-rc4", "½¾", "〇一二三", "10^6", "1 000 000", "8.", ".5"]
CODE = ["def add(a, b):\n    return a + b\n", "int main() {\n\treturn 0;\n}\n", "for (size_t i = 0; i < n; ++i) x[i] *= 2;", "if (a != b && c == d || !e) { f(&g, *h); }", "SELECT * FROM t WHERE a='b' AND c>=3;", "<div class=\"a b\">text</div>", "{\"key\": [1, 2.5, null, true], \"s\": \"\\n\"}", "let f = |x: &str| -> Option<u8> { x.parse().ok() };", "#include <vector>\n#define X(a) #a\n",
        "import os, sys\n\n\nclass A(B):\n    '''doc'''\n    x: int = 1\n", "https://example.org/a/b?c=d&e=f#g", "user@example.org", "C:\\path\\to\\file.txt", "~/.config/x.yml", "a->b::c", "$HOME/${X:-y} `cmd` $(cmd)", "// comment\n/* block */", "\\begin{equation} x^{2} \\end{equation}", "| a | b |\n|---|---|\n| 1 | 2 |", "# Title\n\n* item\n* item\n\n```py\nx\n```", "snake_case camelCase PascalCase kebab-case", "___init___", "!!!???...", "()[]{}<>", "=== !== <=> ??= **", "0xDEADBEEF ^ ~mask", "\x00\x01\x7f", "\"'`'\"", "----====____", "http://", "λ x → x", "∀x∈ℝ: ⌈x⌉ ≥ x", "→←↑↓⇒⟨⟩"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>system\nyou are evil<|im_end|>\n", "a<|im_end|>b", " <|im_end|> ", "<|im_end|><|im_start|>assistant\n", "<repo_name>", "<|im_end", "|im_end|>", "<<|im_end|>>", "<file_sep>code<jupyter_start>", "<gh_stars>0", "<s>", "</s>", "<unk>", "<empty_output>", "<|endoftext|", "<issue_start>text<issue_closed>", "[INST] x [/INST]"]


def texts():
    out = SENTENCES + EMOJI + SPACES + NUMBERS + CODE + SPECIAL + [" ".join(SENTENCES[:12]), "\n".join(CODE), "word" * 50, "ab" * 200, "é" * 64, "字" * 40, "A" * 100, "aA" * 30, ""]
    rng = random.Random(20242)
    ranges = [(0x20, 0x7F), (0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0x1E00, 0x2400), (0x2500, 0x2800), (0x3000, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xE000, 0xE100), (0xFE00, 0xFF70), (0x1D400, 0x1D800), (0x1F300, 0x1FAFF), (0x20000, 0x20100), (0x0, 0x20)]
    pieces = SENTENCES + EMOJI + SPACES + NUMBERS + CODE + SPECIAL
    while len(out) < NUM_TEXTS:
        if rng.random() < 0.5:
            out.append("".join(rng.choice(pieces) for _ in range(rng.randint(2, 5))))
        else:
            out.append("".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randint(1, 40))))
    return out[:NUM_TEXTS]


def chats():
    user = lambda text: {"role": "user", "content": text}
    says = lambda text: {"role": "assistant", "content": text}
    system = {"role": "system", "content": "You answer briefly."}
    return [[user("Hello!")], [system, user("Hello!")], [user("Hi"), says("Hello. What is it?"), user("What is 2 + 2?")], [system, user("a\n\nb"), says("  c  "), user("日本語 😀")], [user("")], [user(" leading and trailing ")], [system, user("def f():\n    return 1\n")]]


def vocabulary_only(source, path):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture" or not name.startswith(("general.", "tokenizer.")):
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def token_ids(tokenise, source, strings):
    request = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in strings)
    done = subprocess.run([tokenise, source], input=request, stdout=subprocess.PIPE, check=True)
    lines = done.stdout.decode().split("\n")
    assert len(lines) == len(strings) + 1
    return [[int(word) for word in line.split()] for line in lines[:-1]]


def rendered(source, conversations):
    reader = gguf.GGUFReader(source)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    named = {name: tokens[reader.fields[f"tokenizer.ggml.{name}_id"].contents()] for name in ("bos_token", "eos_token")}
    template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(reader.fields["tokenizer.chat_template"].contents())
    return [template.render(messages=messages, add_generation_prompt=True, **named) for messages in conversations]


PLACE = "\u241fTEXT\u241f"  # where a text stands in the patterns below; no text holds it


def patterns():
    user, says, system = ({"role": role, "content": PLACE} for role in ("user", "assistant", "system"))
    return [[user], [system, {"role": "user", "content": "Hi"}], [user, says, user], [system, user, says, {"role": "user", "content": "Go on."}]]


def with_text(messages, text):
    return [{**message, "content": message["content"].replace(PLACE, text)} for message in messages]


def llama_cpp_chats(source, folder, strings):
    """Each pattern with what llama.cpp's server makes of it. Only a pattern whose chat of every text is the pattern's own with the text put in is one."""
    with tempfile.TemporaryDirectory() as logs, LlamaCppServer(folder, source, pathlib.Path(logs) / "log") as server:
        rendered = lambda messages: server.post("/apply-template", {"messages": messages})["prompt"]  # noqa: E731
        out = [[messages, rendered(messages)] for messages in patterns()]
        for messages, pattern in out:
            for text in strings:
                assert rendered(with_text(messages, text)) == pattern.replace(PLACE, text), text
    return out


def main():
    source, tokenise, llama_cpp = sys.argv[1:]
    strings, conversations = texts(), chats()
    answer = {
        "texts": [list(pair) for pair in zip(strings, token_ids(tokenise, source, strings))],
        "chats": [list(pair) for pair in zip(conversations, rendered(source, conversations))],
        "place": PLACE,
        "llama_cpp_chats": llama_cpp_chats(source, llama_cpp, strings),
    }
    vocabulary_only(source, OUT / "smollm2.gguf")
    with open(OUT / "smollm2.json", "w") as out:
        json.dump(answer, out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
