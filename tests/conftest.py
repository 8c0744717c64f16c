"""Shared by the tests: small sites and chat endpoints served on loopback, and a real browser to look at sites."""

import asyncio
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, Gemma3ForCausalLM, Gemma3TextConfig

from environment.browser import Browser
from experiments.pretrain_base import train_tokenizer
from language_model import ChatEndpoint, LocalModel
from trajectory import parse_action

POCKET_MODEL = Path(__file__).parents[1] / "pocket_model"
PAGE = 'Forum\n/forum\n# Posts\nlink "Create post" button "Search" textbox "Title" ""\n'


@pytest.fixture(scope="session")
def tokenizer():
    """The shipped one; a source tree without it makes its like."""
    if POCKET_MODEL.exists():
        return AutoTokenizer.from_pretrained(POCKET_MODEL, padding_side="left")
    return train_tokenizer([PAGE] * 20)


@pytest.fixture(scope="session")
def tiny_model(tokenizer):
    """tiny_model(dtype=…, seed=…): a random Gemma 3 with a window so short that padding reaches beyond it.

    In double precision, what must be equal is equal to some twelve digits.
    """

    def make(dtype=torch.double, seed=0, **settings):
        torch.manual_seed(seed)
        config = Gemma3TextConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            query_pre_attn_scalar=8,
            initializer_range=0.5,
            sliding_window=16,
            layer_types=["sliding_attention", "full_attention"],
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **settings,
        )
        return LocalModel(Gemma3ForCausalLM(config).to(dtype), tokenizer, "cpu")

    return make


@pytest.fixture(scope="session")
def tiny_checkpoint(tiny_model, tmp_path_factory):
    """The folder of such a model."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny_model(torch.float32).save(folder)
    return folder


class Site:
    """Pages by path.  A page is HTML, a status code, or a function of the handler; `gate` holds back "/late/…" until it is set."""

    def __init__(self):
        self.pages: dict[str, str | int] = {}
        self.hits = Counter()
        self.gate = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.split("?")[0]
                site.hits[path] += 1
                if path.startswith("/late/"):
                    site.gate.wait(60)
                page = site.pages.get(path, 404)
                if page == 0:  # hang up without an answer
                    return
                if callable(page):  # answers for itself
                    return page(self)
                self.send_response(page if isinstance(page, int) else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(f"<title>{page}</title>".encode() if isinstance(page, int) else page.encode())

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture
def other_site():
    site = Site()
    yield site
    site.close()


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def browser(runner):
    browser = Browser()
    runner.run(browser.__aenter__())
    yield browser
    runner.run(browser.__aexit__())


class Visit:
    """One tab, used line by line."""

    def __init__(self, runner, tab):
        self.runner, self.tab = runner, tab
        self.seen = self.run(tab.observe())

    def run(self, awaitable):
        return self.runner.run(_awaited(awaitable))

    def do(self, line):
        self.seen = self.run(self.tab.act(parse_action(line)))
        return self.seen

    def js(self, expression):
        return self.run(self.tab.page.evaluate(expression))

    def until(self, condition, tries=200):
        """Look again until `condition(observation)`: for what a page does in its own time."""
        for _ in range(tries):
            self.seen = self.run(self.tab.observe())
            if condition(self.seen):
                return self.seen
            self.run(asyncio.sleep(0.05))
        raise AssertionError(f"never came: {self.seen}")


async def _awaited(awaitable):
    return await awaitable


@pytest.fixture
def visit(runner, browser, site):
    """visit(html, **pages) opens `html` at "/", with the other pages at "/" and their names."""
    visits = []

    def start(html, *, path="/", allowed=(), **pages):
        site.pages |= {path: html, **{f"/{name}": page for name, page in pages.items()}}
        visits.append(Visit(runner, runner.run(browser.open(site.origin + path, allowed=allowed))))
        return visits[-1]

    yield start
    for visit in visits:
        visit.run(visit.tab.close())


# --- chat endpoints -------------------------------------------------------------------------------------------------

KEY = "sk-never-to-be-seen"


def completion(content, finish="stop", **message):
    """The body of a chat completion, as vLLM, llama.cpp and Gemini send it."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    usage = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


class Endpoint:
    """Gives the answers it was made with in turn, the last one for ever, and keeps what it was asked.

    An answer is a text or a body with status 200, or a status, headers and a body; "hang" and "break off" in place of a body
    are what they say.
    """

    def __init__(self, *answers):
        self.answers, self.asked, self.keys, self.times = list(answers), [], [], []
        self.released = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                assert self.path == "/v1/chat/completions"
                endpoint.times.append(time.monotonic())
                endpoint.keys.append(self.headers["Authorization"])
                endpoint.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                answer = endpoint.answers.pop(0) if len(endpoint.answers) > 1 else endpoint.answers[0]
                self.answer(*answer if isinstance(answer, tuple) else (200, {}, answer))

            def answer(self, status, headers, body):
                if body == "hang":
                    endpoint.released.wait(30)
                    return
                body = completion(body) if isinstance(body, str) and status == 200 and not headers else body
                sent = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json", "Content-Length": len(sent)} | headers).items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads, self.server.block_on_close = True, False
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def serve(monkeypatch):
    """serve(*answers, …) -> (endpoint, model)"""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoints = []

    def start(*answers, **settings):
        endpoints.append(Endpoint(*answers))
        return endpoints[-1], ChatEndpoint("m", endpoints[-1].url, **settings)

    yield start
    for endpoint in endpoints:
        endpoint.close()
