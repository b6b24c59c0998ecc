"""The page at / in headless Chromium: eval/page_check.py URL OUT. Streams, stops, survives a reload, shows errors, works by keyboard, on a
narrow screen, in light and dark; writes screenshots to OUT. Needs a server of gsm-tiny, chromium and chromedriver."""
import json
import pathlib
import re
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from web_driver import ENTER, ESCAPE, SHIFT, TAB, Browser, PageError  # noqa: E402

# gsm-tiny's greedy answer to this fills its whole context: long enough to watch and to stop.
ENDLESS = "Question: Question: Question:"
LAST = "document.querySelector('#messages li:last-child')"


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise PageError(what)


def send(page: Browser, text: str) -> None:
    """Types a message and waits until the page has taken it: until then the answer before looks like the answer to this one."""
    before = page.js("document.getElementById('messages').children.length")
    page.keys(text + ENTER)
    page.wait(f"document.getElementById('messages').children.length > {before}", 20, "the page takes the message")


def wait_answer(page: Browser, seconds: float = 60) -> str:
    page.wait(f"document.getElementById('stop').hidden && {LAST}?.classList.contains('assistant')", seconds, "the answer ends")
    return page.js(f"{LAST}.querySelector('.body').textContent")


def the_api_says(url: str, content: str) -> str:
    body = {"messages": [{"role": "user", "content": content}], "temperature": 0}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def answers(page: Browser, url: str) -> None:
    """A message by keyboard alone gives the API's own answer; Shift+Enter is a line, not a message."""
    page.keys("Tom buys 3 apples and")
    page.keys(ENTER, held=SHIFT)
    page.keys("then 4 more. How many?")
    expect(page.js("document.getElementById('messages').children.length") == 0, "Shift+Enter sent the message")
    page.keys(ENTER)
    shown = wait_answer(page)
    said = the_api_says(url, "Tom buys 3 apples and\nthen 4 more. How many?")
    expect(shown == said, f"the page shows {shown!r}, the API says {said!r}")
    note = page.js(f"{LAST}.querySelector('.note').textContent")
    rate = re.search(r"then ([\d.]+) per second", note)
    expect("tokens, first after" in note and (rate is None or float(rate[1]) < 10000), f"the answer's note has no figures, or impossible ones: {note}")


def streams_and_stops(page: Browser, url: str) -> None:
    """Text grows while the engine's view shows a running request; Escape ends it on the server too."""
    page.click("#clear")  # with other messages before it, it is another prompt
    page.keys(ENDLESS + ENTER)
    length = f"({LAST}?.querySelector('.body').textContent.length ?? 0)"
    page.wait(f"{length} > 20", 30, "the first text")
    first = page.js(length)
    page.wait(f"{length} > {first + 100}", 30, "text that grows")
    page.wait("document.getElementById('running').value === '1'", 10, "the engine's view shows the request")
    page.keys(ESCAPE)
    page.wait("document.getElementById('stop').hidden", 10, "Escape stops the answer")
    expect(page.js(f"{LAST}.querySelector('.note').textContent") == "stopped", "the answer is not marked as stopped")
    kept = page.js(length)
    expect(kept > first, "the text that had come is gone")
    page.wait("document.getElementById('running').value === '0'", 10, "the server gave the request up")
    page.click("#clear")
    page.keys(ENDLESS + ENTER)
    page.wait(f"{length} > 20", 30, "an answer to be left")
    page.click("#clear")
    page.wait("document.getElementById('stop').hidden", 10, "a new conversation stops the old one's answer")
    expect(page.js("document.getElementById('messages').children.length") == 0 and page.js("sessionStorage.getItem('quire.messages')") == "[]", "the old answer came into the new conversation")
    page.keys(ENDLESS + ENTER)
    page.wait(f"{length} > 20", 30, "the next answer")
    page.click("#stop")
    page.wait("document.getElementById('stop').hidden", 10, "the button stops the answer")


def reloads(page: Browser, url: str) -> None:
    before = page.js("[...document.querySelectorAll('#messages .body')].map((e) => e.textContent)")
    page.reload()
    page.wait("document.getElementById('state').textContent === 'ready'", 20, "ready after a reload")
    after = page.js("[...document.querySelectorAll('#messages .body')].map((e) => e.textContent)")
    expect(before == after and len(after) == 2, f"{len(before)} messages before the reload, {len(after)} after")


def shows_errors(page: Browser, url: str) -> None:
    """The server's own words; what was typed stays, and the next message works."""
    page.js("document.getElementById('settings').open = true")
    page.set_value("#max-tokens", "999999")
    page.click("#input")
    page.keys("hello" + ENTER)
    page.wait("!document.getElementById('problem').hidden", 20, "an error")
    text = page.js("document.getElementById('problem').textContent")
    expect("max_tokens" in text and "999999" in text, f"the error does not name the field and the value: {text}")
    page.wait("document.getElementById('stop').hidden", 10, "the failed answer's end")
    expect(page.js("document.getElementById('input').value") == "hello", "what was typed is gone after an error")
    kept = page.js("JSON.parse(sessionStorage.getItem('quire.messages')).map((m) => m.role)")
    expect(page.js("document.getElementById('messages').children.length") == len(kept) and "user,user" not in ",".join(kept) and kept[-1:] != ["user"], f"a question without an answer stays in the conversation: {kept}")
    page.set_value("#input", "")
    page.js("document.getElementById('settings').open = true")
    page.set_value("#max-tokens", "16")
    page.click("#input")
    send(page, "<b>bold</b>")
    wait_answer(page)
    expect(page.js("document.getElementById('problem').hidden"), "the error stays after an answer")
    expect(page.js("document.querySelectorAll('#messages b').length") == 0, "a message became markup")
    page.click("#clear")  # what was said before, and stopped at any length, decides how long the next answer is
    send(page, ENDLESS)
    wait_answer(page)
    expect("cut at" in page.js(f"{LAST}.querySelector('.note').textContent"), "an answer of 16 tokens is not marked as cut")
    page.click("#clear")
    expect(page.js("document.getElementById('messages').children.length") == 0, "a new conversation is not empty")
    page.click("#settings summary")


def engine_view(page: Browser, url: str) -> None:
    facts = page.js("Object.fromEntries([...document.querySelectorAll('#facts tr')].map((row) => [row.children[0].textContent, row.children[1].textContent]))")
    for name in ("model", "KV cache", "attention", "graphs"):
        expect(name in facts, f"the engine's view lacks {name}: {sorted(facts)}")
    expect("decode CPU_" in facts["attention"], f"no selected backend in {facts['attention']!r}")
    expect(page.js("document.querySelectorAll('#rejected-list li').length") > 0, "no word about rows that do not run")
    expect(page.js("document.querySelectorAll('#modes tr').length") >= 3, "no steps by graph mode")
    expect(page.js("document.querySelector('#scale-table caption').textContent.length") > 10, "no scale ledger")
    expect(page.js("document.querySelector('#blocks').value").split(" of ")[1].isdigit(), "no blocks")


def keyboard(page: Browser, url: str) -> None:
    """Tab reaches every control, and the focus is seen."""
    page.js("document.activeElement.blur()")
    seen = []
    for _ in range(12):
        page.keys(TAB)
        seen.append(page.js("document.activeElement.id || document.activeElement.parentElement.id"))
    for control in ("input", "send", "settings", "scales"):
        expect(control in seen, f"Tab does not reach {control}: {seen}")
    page.js("document.getElementById('input').focus()")
    expect(page.js("getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus cannot be seen")


def looks(page: Browser, url: str, out: pathlib.Path) -> None:
    send(page, "Mia has 12 pencils and gives 5 away. How many are left?")
    wait_answer(page)
    page.js("document.getElementById('scales').open = true")
    for scheme in ("light", "dark"):
        page.cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        for name, width, height in (("wide", 1280, 860), ("narrow", 390, 780)):
            page.size(width, height)
            for view in ("chat",) if name == "wide" else ("chat", "live"):
                if name == "narrow":
                    page.click(f"#show-{view}")
                page.screenshot(out / f"page-{scheme}-{name}-{view}.png")
                expect(page.js("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} {view}: wider than the screen")
            if name == "narrow":
                page.click("#show-chat")
        # WCAG 2.1: text and its background differ by 4.5 to 1 at least.
        for element in ("body", ".model", ".hint", "#send", ".message.user", ".message .note", ".tile .name", ".facts th"):
            ratio = page.js(CONTRAST % element)
            expect(ratio is None or ratio >= 4.5, f"{scheme}: contrast of {element} is {ratio}")


CONTRAST = """(() => {
  const element = document.querySelector('%s');
  if (element === null) return null;
  const parts = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  let behind = element, back = parts(getComputedStyle(behind).backgroundColor);
  while (back.length === 4 && back[3] === 0 && behind.parentElement) { behind = behind.parentElement; back = parts(getComputedStyle(behind).backgroundColor); }
  const [low, high] = [light(parts(getComputedStyle(element).color)), light(back)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
})()"""


def main() -> int:
    url, out = sys.argv[1].rstrip("/"), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    passed, failed = [], []
    with Browser(out / "chromedriver.log") as page:
        page.open(url + "/")
        page.wait("document.getElementById('state').textContent === 'ready' && document.getElementById('facts').children.length > 0", 30, "the page is ready")
        page.js("document.getElementById('temperature').value = '0'")
        page.js("document.getElementById('temperature').dispatchEvent(new Event('input'))")
        page.js("document.getElementById('settings').open = true")
        page.js("document.getElementById('input').focus()")
        for check in (answers, streams_and_stops, reloads, shows_errors, engine_view, keyboard, lambda p, u: looks(p, u, out)):
            name = check.__name__.replace("<lambda>", "looks")
            try:
                check(page, url)
                passed.append(name)
            except (PageError, OSError, KeyError, IndexError) as error:
                failed.append(f"{name}: {error}")
                page.screenshot(out / f"failed-{name}.png")
        # The refused request above is an answer of 400, which browsers report by themselves.
        errors = [text for text in page.console_errors() if "status of 400" not in text]
        if errors:
            failed.append(f"console: {errors[0]}")
    for line in failed:
        print("FAILED " + line)
    print(f"{len(passed)} parts of the page hold ({', '.join(passed)}), {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
