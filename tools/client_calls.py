#!/usr/bin/env python3
"""Forty calls against a running server, with the official `openai` client and with curl, each with an assertion.

    client_calls.py BASE_URL [--model NAME] [--api-key KEY]

BASE_URL is the server's root, e.g. http://127.0.0.1:8000. Prints one line per call and ends with "40 passed, 0 failed"; exit
status 1 when a call failed. Makes no assumption about what the model says, only about how it is said.
"""
import argparse
import json
import subprocess
import sys
import threading

import openai

CALLS = []


def call(function):
    CALLS.append(function)
    return function


class Server:
    def __init__(self, base_url, model, api_key):
        self.url = base_url.rstrip("/")
        self.key = api_key
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key=api_key or "none", max_retries=0, timeout=120)
        self.model = model or self.client.models.list().data[0].id

    def curl(self, path, body=None, *options):
        """(status, headers in lower case, text) of one curl run."""
        command = ["curl", "-sS", "-i", "--max-time", "120", *options]
        if self.key:
            command += ["-H", f"Authorization: Bearer {self.key}"]
        if body is not None:
            command += ["-H", "Content-Type: application/json", "--data-binary", "@-"]
        done = subprocess.run(command + [self.url + path], input=None if body is None else body.encode(), capture_output=True, check=True)
        text = done.stdout.decode()
        while text.startswith("HTTP/1.1 100"):
            text = text.split("\r\n\r\n", 1)[1]
        head, _, rest = text.partition("\r\n\r\n")
        lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        return int(lines[0].split()[1]), headers, rest

    def post(self, path, **fields):
        status, _, text = self.curl(path, json.dumps(fields))
        return status, json.loads(text)

    def completion(self, prompt="Question: Tom has 3 apples and buys 4 more. How many apples does Tom have now?\nAnswer:", **fields):
        fields.setdefault("temperature", 0)
        return self.client.completions.create(model=self.model, prompt=prompt, **fields)

    def chat(self, content="Tom has 3 apples and buys 4 more. How many apples does Tom have now?", **fields):
        fields.setdefault("temperature", 0)
        fields.setdefault("max_tokens", 24)
        return self.client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": content}], **fields)

    def tokens(self, text):
        return self.post("/tokenize", prompt=text, add_special_tokens=False)[1]["tokens"]


def refused(kind, action):
    """The body's error object; the call must raise `kind`."""
    try:
        action()
    except kind as error:
        assert isinstance(error.body, dict) and error.body["message"], error.body
        assert error.body["code"] == error.status_code, error.body
        return error.body
    raise AssertionError(f"was not refused with {kind.__name__}")


@call
def models_are_listed(s):
    ids = [m.id for m in s.client.models.list().data]
    assert s.model in ids, ids


@call
def completion_has_openais_shape(s):
    r = s.completion(max_tokens=8)
    assert r.object == "text_completion" and r.id.startswith("cmpl-") and r.model == s.model
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    assert r.choices[0].finish_reason in ("stop", "length") and r.choices[0].text


@call
def max_tokens_is_kept(s):
    r = s.completion(max_tokens=3, extra_body={"ignore_eos": True})
    assert r.usage.completion_tokens == 3 and r.choices[0].finish_reason == "length"


@call
def max_tokens_defaults_to_16(s):
    assert s.completion(extra_body={"ignore_eos": True}).usage.completion_tokens == 16


@call
def greedy_repeats(s):
    assert s.completion(max_tokens=20).choices[0].text == s.completion(max_tokens=20).choices[0].text


@call
def a_seed_repeats(s):
    texts = {s.completion(max_tokens=12, temperature=1.0, seed=7).choices[0].text for _ in range(3)}
    assert len(texts) == 1, texts


@call
def n_gives_that_many_choices(s):
    r = s.completion(max_tokens=6, n=3, temperature=1.0, seed=1)
    assert [c.index for c in r.choices] == [0, 1, 2]


@call
def list_prompts_come_back_in_order(s):
    alone = [s.completion(prompt=p, max_tokens=6).choices[0].text for p in ("One", "Two", "Three")]
    r = s.completion(prompt=["One", "Two", "Three"], max_tokens=6)
    assert [c.text for c in sorted(r.choices, key=lambda c: c.index)] == alone


@call
def token_prompts_equal_text(s):
    text = "Question: How many?"
    assert s.completion(prompt=s.tokens(text), max_tokens=8).choices[0].text == s.completion(prompt=text, max_tokens=8, extra_body={"add_special_tokens": False}).choices[0].text


@call
def lists_of_token_prompts(s):
    r = s.completion(prompt=[s.tokens("One"), s.tokens("Two")], max_tokens=4)
    assert len(r.choices) == 2


@call
def echo_repeats_the_prompt(s):
    r = s.completion(prompt="Tom buys apples", max_tokens=4, echo=True)
    assert r.choices[0].text.startswith("Tom buys apples")


@call
def echo_alone_scores_the_prompt(s):
    ids = s.tokens("Tom buys 3 apples and 4 pears")
    r = s.completion(prompt=ids, max_tokens=0, echo=True, logprobs=1)
    assert len(r.choices[0].logprobs.token_logprobs) == len(ids) and r.choices[0].logprobs.token_logprobs[0] is None


@call
def loglikelihood_as_lm_eval_reads_it(s):
    ids = s.tokens("Question: Tom has 3 apples.")
    r = s.completion(prompt=ids, max_tokens=1, echo=True, logprobs=1, seed=1234)
    scores, tops = r.choices[0].logprobs.token_logprobs, r.choices[0].logprobs.top_logprobs
    assert len(scores) == len(ids) + 1
    assert all(score <= max(top.values()) for score, top in zip(scores[1:], tops[1:]))
    assert scores[-1] == max(tops[-1].values()), "the greedy token is the most likely one, to the last digit"


@call
def logprobs_have_offsets(s):
    r = s.completion(max_tokens=5, logprobs=3)
    l = r.choices[0].logprobs
    assert len(l.tokens) == len(l.token_logprobs) == len(l.text_offset) == len(l.top_logprobs)
    assert l.text_offset[0] == 0 and all(1 <= len(t) <= 4 for t in l.top_logprobs)


@call
def prompt_logprobs(s):
    r = s.completion(prompt=s.tokens("Tom buys apples"), max_tokens=1, extra_body={"prompt_logprobs": 2})
    assert r.choices[0].prompt_logprobs[0] is None and all("rank" in v for v in r.choices[0].prompt_logprobs[1].values())


@call
def a_stop_string_ends_the_text(s):
    whole = s.completion(max_tokens=30, extra_body={"ignore_eos": True}).choices[0].text
    stop = whole[8:11]
    r = s.completion(max_tokens=30, stop=[stop], extra_body={"ignore_eos": True})
    assert r.choices[0].text == whole[:whole.index(stop)] and r.choices[0].finish_reason == "stop" and r.choices[0].stop_reason == stop


@call
def a_stop_string_can_stay(s):
    whole = s.completion(max_tokens=30, extra_body={"ignore_eos": True}).choices[0].text
    stop = whole[8:11]
    r = s.completion(max_tokens=30, stop=stop, extra_body={"ignore_eos": True, "include_stop_str_in_output": True})
    assert r.choices[0].text == whole[:whole.index(stop) + len(stop)]


@call
def a_stop_token_ends_the_text(s):
    ids = s.completion(max_tokens=8, extra_body={"return_token_ids": True, "ignore_eos": True}).choices[0].token_ids
    r = s.completion(max_tokens=8, extra_body={"stop_token_ids": [ids[3]], "ignore_eos": True})
    assert r.choices[0].stop_reason == ids[3] and r.usage.completion_tokens == ids.index(ids[3]) + 1


@call
def allowed_tokens_alone_are_made(s):
    allowed = s.tokens("7")
    r = s.completion(max_tokens=4, extra_body={"allowed_token_ids": allowed, "ignore_eos": True, "return_token_ids": True})
    assert set(r.choices[0].token_ids) <= set(allowed), r.choices[0].token_ids


@call
def logit_bias_decides(s):
    token = s.tokens("7")[-1]
    r = s.completion(max_tokens=2, logit_bias={str(token): 100}, extra_body={"return_token_ids": True})
    assert r.choices[0].token_ids == [token, token], r.choices[0].token_ids


@call
def streamed_text_equals_the_whole(s):
    whole = s.completion(max_tokens=40).choices[0]
    chunks = list(s.completion(max_tokens=40, stream=True))
    assert "".join(c.choices[0].text for c in chunks) == whole.text
    assert chunks[-1].choices[0].finish_reason == whole.finish_reason


@call
def streamed_usage_when_asked(s):
    chunks = list(s.completion(max_tokens=5, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens >= 1
    assert all(c.usage is None for c in chunks[:-1])


@call
def streamed_choices_keep_apart(s):
    whole = s.completion(max_tokens=8, n=2, temperature=1.0, seed=5)
    texts = ["", ""]
    for chunk in s.completion(max_tokens=8, n=2, temperature=1.0, seed=5, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [c.text for c in whole.choices]


@call
def chat_has_openais_shape(s):
    r = s.chat()
    assert r.object == "chat.completion" and r.id.startswith("chatcmpl-")
    assert r.choices[0].message.role == "assistant" and r.choices[0].message.content


@call
def chat_streams_a_role_then_text(s):
    chunks = list(s.chat(stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == s.chat().choices[0].message.content
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")


@call
def chat_logprobs(s):
    content = s.chat(max_tokens=4, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    assert all(len(t.top_logprobs) == 2 and bytes(t.bytes).decode(errors="replace") == t.token for t in content)


@call
def chat_parts_and_empty_content(s):
    r = s.client.chat.completions.create(model=s.model, max_tokens=2, temperature=0, messages=[
        {"role": "user", "content": [{"type": "text", "text": "How many?"}]}, {"role": "assistant", "content": None}, {"role": "user", "content": "Again."}])
    assert r.usage.completion_tokens >= 1


@call
def chat_max_completion_tokens(s):
    r = s.client.chat.completions.create(model=s.model, max_completion_tokens=3, messages=[{"role": "user", "content": "Count."}], extra_body={"ignore_eos": True})
    assert r.usage.completion_tokens == 3


@call
def eight_clients_at_once_agree(s):
    texts = [None] * 8

    def ask(i):
        texts[i] = s.completion(max_tokens=16).choices[0].text
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(texts)) == 1 and texts[0] is not None, texts


@call
def unknown_model_is_404(s):
    body = refused(openai.NotFoundError, lambda: s.client.completions.create(model="no-such-model", prompt="a"))
    assert "no-such-model" in body["message"]


@call
def bad_temperature_is_400_and_names_the_field(s):
    assert refused(openai.BadRequestError, lambda: s.completion(temperature=-1))["param"] == "temperature"


@call
def too_many_tokens_is_400_with_the_numbers(s):
    body = refused(openai.BadRequestError, lambda: s.completion(max_tokens=100_000_000))
    assert "maximum context length" in body["message"] and "at most" in body["message"] and body["param"] == "max_tokens"


@call
def token_outside_the_vocabulary_is_400(s):
    assert refused(openai.BadRequestError, lambda: s.completion(prompt=[2_000_000_000]))["param"] == "prompt"


@call
def what_is_not_built_is_refused(s):
    body = refused(openai.BadRequestError, lambda: s.chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]))
    assert body["param"] == "tools"
    for field, value in (("guided_json", {}), ("suffix", []), ("documents", [{"title": "t", "text": "x"}]), ("repetition_detection", {})):
        action = (lambda **f: s.chat(**f)) if field == "documents" else (lambda **f: s.completion(**f))
        assert refused(openai.BadRequestError, lambda: action(max_tokens=1, extra_body={field: value}))["param"] == field, field


@call
def curl_completion(s):
    status, body = s.post("/v1/completions", model=s.model, prompt="Question:", max_tokens=4, temperature=0)
    assert status == 200 and body["choices"][0]["text"] == s.completion(prompt="Question:", max_tokens=4).choices[0].text


@call
def curl_stream_ends_with_done(s):
    status, headers, text = s.curl("/v1/completions", json.dumps({"model": s.model, "prompt": "a", "max_tokens": 3, "stream": True}), "-N")
    assert status == 200 and headers["content-type"].startswith("text/event-stream") and text.endswith("data: [DONE]\n\n")


@call
def curl_tokenize_and_detokenize(s):
    status, body = s.post("/tokenize", model=s.model, prompt="Tom buys 3 apples.", add_special_tokens=False)
    assert status == 200 and body["count"] == len(body["tokens"])
    status, back = s.post("/detokenize", model=s.model, tokens=body["tokens"])
    assert status == 200 and back["prompt"] == "Tom buys 3 apples."


@call
def curl_health_version_metrics(s):
    assert s.curl("/health")[0] == 200 and s.curl("/ready")[0] == 200 and s.curl("/ping")[0] == 200
    assert json.loads(s.curl("/version")[2])["version"]
    status, headers, text = s.curl("/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain") and "vllm:" in text


@call
def curl_broken_json_is_400(s):
    status, _, text = s.curl("/v1/completions", '{"prompt": ')
    assert status == 400 and json.loads(text)["error"]["code"] == 400


@call
def curl_unknown_path_and_method(s):
    assert s.curl("/v1/nowhere")[0] == 404
    status, headers, _ = s.curl("/v1/completions")
    assert status == 405 and headers["allow"] == "post"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("base_url")
    parser.add_argument("--model")
    parser.add_argument("--api-key", default="")
    options = parser.parse_args()
    server = Server(options.base_url, options.model, options.api_key)
    failed = 0
    for function in CALLS:
        name = function.__name__.replace("_", " ")
        try:
            function(server)
            print(f"ok      {name}", flush=True)
        except Exception as error:  # every call is reported, whatever went wrong in it
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__}: {str(error)[:500]}", flush=True)
    print(f"{len(CALLS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
