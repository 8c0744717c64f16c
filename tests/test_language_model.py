"""π: prompts, tokens, sampling and scoring, on a tiny random model with the project's own tokenizer."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from environment.rollout import Episode
from language_model import (
    LanguagePolicy,
    LocalModel,
    ScriptedModel,
    checkpoint_activations,
    left_pad,
    pick,
    read_action,
    state_prompt,
)
from trajectory import Action, Observation, Task, parse_action

PAGE = Observation("Forum", "/forum", '# Posts\nlink "Quiet harbor" by leo\ntextbox "Title" ""')
SHORT, LONG = "page:\n", "page:\n" + "the quiet harbor is one of 97 posts\n" * 40
PROMPTS = [SHORT, LONG, state_prompt("Open the post", [Action("click", "link", "Posts")], PAGE)]


def rngs(count, seed=0):
    return [np.random.default_rng([seed, index]) for index in range(count)]


# --- prompts ----------------------------------------------------------------------------------------------------


def test_the_state_is_the_page_what_was_done_and_at_last_what_is_asked():
    done = [Action("click", "link", "Posts"), Action("type", "textbox", "Title", text="a\nb")]
    assert state_prompt("Open\n the post", done, PAGE) == (
        "page:\nForum\n/forum\n# Posts\nlink \"Quiet harbor\" by leo\ntextbox \"Title\" \"\"\n"
        'done:\nclick link "Posts"\ntype textbox "Title" "a\\nb"\n'
        "task: Open the post\naction:\n"
    )
    planned = state_prompt("Go", [], PAGE, checklist="[x] one\n[ ] two")
    assert planned.endswith("done:\nmilestones:\n[x] one\n[ ] two\ntask: Go\naction:\n")


def test_a_scripted_model_gives_its_replies_in_turn():
    model = ScriptedModel(["a", "b", "c"])
    assert [reply.text for reply in model.generate(["x", "y"])] == ["a", "b"]
    with pytest.raises(ValueError, match="1 replies left and was asked for 2"):
        model.generate(["x", "y"])


def test_a_reply_that_is_no_action_is_kept_as_it_was():
    assert read_action('I think:\nclick link "A"') == Action("click", "link", "A")
    assert read_action("I\n do  not know " + "x" * 300) == Action("invalid", text=("I do not know " + "x" * 300)[:200])


# --- tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", " ", "a", " a ", "Quiet harbor", 'say "hi" now', '"', '""', '" "', ' "a" "b"', "\n", "\n\n", "a\n b", '"\n"', 'x\\"y\\n', "\ttab  two   three"]
    + ["naïve 東京 🙂", "\u2028\x85\x00\x7f", "don't", "3.50, 97%", '{"a": [1, 2]}', 'type textbox "Title" "Broken build"', "a , b . c ! d ?", "<b>"],
)  # fmt: skip
def test_the_tokenizer_loses_nothing(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer.unk_token_id not in ids


def test_a_word_is_one_token_wherever_it_stands(tokenizer):
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in ("quiet", 'a "quiet" b', "a quiet b", "a\nquiet b")]
    assert len(ids[0]) == 1 and all(ids[0][0] in other for other in ids)


def test_a_prompt_has_one_bos_whatever_the_page_says(tiny_model, tokenizer):
    model = tiny_model()
    for text in (SHORT, "ends in a space ", f"{tokenizer.bos_token}page {tokenizer.eos_token} {tokenizer.pad_token}"):
        ids = model.prompt_ids(text)
        assert ids[0] == tokenizer.bos_token_id
        assert not set(ids[1:]) & set(tokenizer.all_special_ids)
    assert model.reply_ids(f'type textbox "T" "{tokenizer.eos_token}"')[:-1].count(tokenizer.eos_token_id) == 0


def test_a_chat_model_gets_its_template_and_one_bos(tiny_model, tokenizer):
    model = tiny_model()
    model.tokenizer = copy.deepcopy(tokenizer)
    model.tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}user: {{ m.content }}\n{% endfor %}model:"
    ids = model.prompt_ids("Hello")
    assert ids.count(tokenizer.bos_token_id) == 1 and ids[0] == tokenizer.bos_token_id
    assert model.tokenizer.decode(ids, skip_special_tokens=True) == "user: Hello\nmodel:"
    assert model.policy_prompt("Go", [], PAGE).startswith("You operate a web browser")
    ids = model.prompt_ids(f"a{tokenizer.bos_token}b")
    assert ids.count(tokenizer.bos_token_id) == 1


def test_a_long_prompt_keeps_its_beginning_and_its_end(tiny_model):
    model = tiny_model()
    whole = model.prompt_ids(LONG)
    model.max_prompt_tokens = 20
    assert model.prompt_ids(LONG) == whole[:10] + whole[-10:]


def test_a_demonstration_ends_with_the_end_token(tiny_model, tokenizer):
    ids = tiny_model().reply_ids('click link "Quiet harbor"')
    assert ids[-1] == tokenizer.eos_token_id
    assert parse_action(tokenizer.decode(ids, skip_special_tokens=True)) == Action("click", "link", "Quiet harbor")


def test_left_pad():
    ids, mask = left_pad([[1, 2, 3], [4]], 9, "cpu")
    assert ids.tolist() == [[1, 2, 3], [9, 9, 4]] and mask.tolist() == [[1, 1, 1], [0, 0, 1]]


# --- scoring ----------------------------------------------------------------------------------------------------


def test_scores_follow_the_definition(tiny_model):
    # log π(a|s) = Σ_i log softmax(logits before token i)[token i], in one plain forward without padding
    model = tiny_model()
    prompt, action = model.prompt_ids(LONG), model.reply_ids('stop "7"')
    logits = model.model(input_ids=torch.tensor([[*prompt, *action]])).logits.detach().float().log_softmax(-1)
    expected = [float(logits[0, len(prompt) - 1 + i, token]) for i, token in enumerate(action)]
    log_p, mask = model.token_log_probs([prompt], [action])
    torch.testing.assert_close(log_p[0], torch.tensor(expected))
    assert mask.all()


@pytest.mark.parametrize("dtype, tolerance", [(torch.double, 1e-6), (torch.float32, 1e-4)])
def test_padding_does_not_change_scores(tiny_model, dtype, tolerance):
    model = tiny_model(dtype)
    prompts = [model.prompt_ids(prompt) for prompt in PROMPTS]
    actions = [model.reply_ids(text) for text in ('stop "7"', "go_back", 'type textbox "Title" "a rather longer reply than those"')]
    assert len(prompts[0]) <= 5 and len(prompts[1]) >= 300
    together, mask = model.token_log_probs(prompts, actions)
    assert torch.isfinite(together).all() and mask.sum(-1).tolist() == list(map(len, actions))
    for row, (prompt, action) in enumerate(zip(prompts, actions)):
        alone, _ = model.token_log_probs([prompt], [action])
        torch.testing.assert_close(together[row][mask[row]], alone[0], atol=tolerance, rtol=tolerance)
        assert (together[row][~mask[row]] == 0).all()


def test_the_ratio_to_the_reference_is_one_before_the_first_update(tiny_model):
    model = tiny_model(torch.float32, attention_dropout=0.1)
    batch = [model.prompt_ids(prompt) for prompt in PROMPTS], [model.reply_ids("go_back")] * 3
    with torch.no_grad():
        model.model.eval()
        log_ref = model.token_log_probs(*batch)[0]
    model.model.train()  # as the actor's update has it
    assert (model.token_log_probs(*batch)[0] - log_ref).abs().max() == 0


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_reach_every_weight(tiny_model, checkpointing, recwarn):
    model = tiny_model()
    model.model.train()
    if checkpointing:
        checkpoint_activations(model.model)
    log_p, _ = model.token_log_probs([model.prompt_ids(LONG)], [model.reply_ids("go_back")])
    log_p.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.model.parameters())
    assert not [warning for warning in recwarn if "require" in str(warning.message)]  # "none of the inputs have requires_grad"


# --- generation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_the_score_at_sampling_is_the_score_afterwards(tiny_model, temperature):
    model = tiny_model()
    replies = model.generate(PROMPTS, temperature=temperature, max_new_tokens=12, rngs=rngs(3))
    prompts, actions = [model.prompt_ids(prompt) for prompt in PROMPTS], [reply.token_ids for reply in replies]
    later = model.token_log_probs(prompts, actions)[0].sum(-1)  # of the ids as stored, at temperature 1
    np.testing.assert_allclose([reply.log_prob for reply in replies], later.detach(), rtol=1e-5)
    for reply in replies:
        assert reply.text == model.tokenizer.decode(reply.token_ids, skip_special_tokens=True)
        assert not set(reply.token_ids[:-1]) & model.ends and 1 <= len(reply.token_ids) <= 12


def test_a_reply_does_not_depend_on_the_batch(tiny_model):
    model = tiny_model()
    together = model.generate(PROMPTS, temperature=1.0, max_new_tokens=12, rngs=rngs(3))
    for row in (0, 1, 2):
        alone = model.generate([PROMPTS[row]], temperature=1.0, max_new_tokens=12, rngs=[rngs(3)[row]])[0]
        assert alone.token_ids == together[row].token_ids
    reverse = model.generate(PROMPTS[::-1], temperature=1.0, max_new_tokens=12, rngs=rngs(3)[::-1])
    assert [reply.token_ids for reply in reverse[::-1]] == [reply.token_ids for reply in together]
    other = model.generate(PROMPTS, temperature=1.0, max_new_tokens=12, rngs=rngs(3, seed=1))
    assert [reply.token_ids for reply in other] != [reply.token_ids for reply in together]


def test_greedy_takes_the_likeliest_token_at_each_step(tiny_model):
    model = tiny_model()
    reply = model.generate([LONG], temperature=0.0, max_new_tokens=8)[0]
    prompt = model.prompt_ids(LONG)
    for i, token in enumerate(reply.token_ids):
        logits = model.model(input_ids=torch.tensor([[*prompt, *reply.token_ids[:i]]])).logits
        assert int(logits[0, -1].argmax()) == token


def test_a_reply_stops_at_its_end_token(tiny_model):
    model = tiny_model()
    first = model.generate([SHORT], temperature=0.0, max_new_tokens=8)[0].token_ids
    model.ends = {first[2]}
    stopped, other = model.generate([SHORT, LONG], temperature=0.0, max_new_tokens=8)
    assert stopped.token_ids == first[: first.index(first[2]) + 1]
    assert len(other.token_ids) == 8 or other.token_ids[-1] in model.ends


def test_generation_leaves_the_model_as_it_was(tiny_model):
    model = tiny_model()
    before = model.generate(PROMPTS, temperature=0.0, max_new_tokens=8)
    checkpoint_activations(model.model)
    for training in (True, False):
        model.model.train(training)
        assert model.generate(PROMPTS, temperature=0.0, max_new_tokens=8) == before
        assert model.model.training is training
    model.model.train()
    with pytest.raises(AttributeError):
        model.generate(PROMPTS, temperature=1.0, max_new_tokens=8, rngs=[None] * 3)
    assert model.model.training
    with pytest.raises(ValueError, match="3 prompts, got 1"):
        model.generate(PROMPTS, temperature=1.0, rngs=rngs(1))


def test_draws_follow_the_distribution():
    # 20,000 draws of (0.5, 0.3, 0.2): the standard error of a frequency is at most (0.25 / 20,000)^½ = 0.0035
    log_p = torch.tensor([[0.5, 0.3, 0.2, 0.0]]).log()
    rng = np.random.default_rng(0)
    counts = np.bincount([pick(log_p, 1.0, [rng], {0})[0] for _ in range(20_000)], minlength=4)
    np.testing.assert_allclose(counts / 20_000, [0.5, 0.3, 0.2, 0], atol=0.015)
    assert counts[3] == 0
    # at temperature ½ probabilities are squared: (25, 9, 4) / 38
    counts = np.bincount([pick(log_p, 0.5, [rng], {0})[0] for _ in range(20_000)], minlength=4)
    np.testing.assert_allclose(counts / 20_000, [25 / 38, 9 / 38, 4 / 38, 0], atol=0.015)


def test_picking_inverts_the_cumulative_distribution():
    log_p = torch.tensor([[0.5, 0.3, 0.2]]).log().expand(5, 3)
    draws = [0.0, 0.49, 0.51, 0.79, 1 - 1e-16]
    fixed = [SimpleNamespace(random=lambda draw=draw: draw) for draw in draws]
    assert pick(log_p, 1.0, fixed, set(range(5))) == [0, 0, 1, 1, 2]
    assert pick(log_p, 0.0, fixed, set()) == [0] * 5


def test_rows_that_are_done_draw_nothing():
    generators = rngs(2)
    pick(torch.zeros(2, 3), 1.0, generators, {1})
    untouched = rngs(2)
    assert generators[0].random() == untouched[0].random()
    assert generators[1].random() != untouched[1].random()


# --- files ------------------------------------------------------------------------------------------------------


def test_a_saved_model_is_the_same_model(tiny_model, tmp_path):
    model = tiny_model(torch.float32)
    model.save(tmp_path)
    loaded = LocalModel.load(tmp_path, "cpu")
    assert loaded.model.dtype == torch.float32
    for name, weight in model.model.state_dict().items():
        assert torch.equal(weight, loaded.model.state_dict()[name]), name
    assert loaded.prompt_ids(LONG) == model.prompt_ids(LONG) and loaded.ends == model.ends
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["model.safetensors"]


def test_a_weight_that_is_missing_or_left_over_is_an_error(tiny_model, tmp_path):
    from safetensors.torch import load_file, save_file

    tiny_model(torch.float32).save(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    for wrong in ({key: value for key, value in weights.items() if key != name}, {**weights, "model.extra": torch.zeros(1)}):
        save_file(wrong, tmp_path / "model.safetensors", {"format": "pt"})
        with pytest.raises(ValueError, match="1 weights do not fit"):
            LocalModel.load(tmp_path, "cpu")


# --- as the environment's policy --------------------------------------------------------------------------------


def test_the_policy_gives_a_step_for_each_state_whatever_its_neighbours(tiny_model):
    model = tiny_model()
    policy = LanguagePolicy(model, temperature=1.0, seed=3, max_new_tokens=6)
    states = [Episode(Task(f"t{i}", (), "Go", "", {}), i, observation=PAGE) for i in range(3)]
    steps = policy.act(states)
    for state, step in zip(states, steps):
        assert policy.act([state])[0].token_ids == step.token_ids
        assert step.observation is PAGE and step.reply == model.tokenizer.decode(step.token_ids, skip_special_tokens=True)
        assert math.isfinite(step.log_prob) and step.action.kind  # a random model writes no action
    states[0].attempt = 1
    assert policy.act(states)[0].token_ids != steps[0].token_ids
    assert LanguagePolicy(model, temperature=1.0, seed=4, max_new_tokens=6).act(states)[1].token_ids != steps[1].token_ids
