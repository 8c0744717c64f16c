"""The one training loop: batches, their cut into micro-batches, and the optimizers."""

import math

import numpy as np
import pytest
import torch

from optimisation import Muon, fit, make_optimizers, micro_batches, orthogonal


def test_micro_batches_group_prompts_of_like_length():
    # sorted by length 1, 3, 5, 9: 3·2 = 6 fits into 6, 5·3 does not, and 9 alone is more than 6 but has to go
    prompts = [[0] * length for length in (5, 1, 9, 3)]
    assert micro_batches([10, 11, 12, 13], prompts, 6) == [[11, 13], [10], [12]]
    assert micro_batches([10, 11, 12, 13], prompts, 4096) == [[11, 13, 10, 12]]


TEXTS = ("page:\n", "page:\nquiet harbor\n" * 20, "page:\nquiet\n" * 3, "task: go\n", "page:\nred\n" * 9)
REPLIES = ("go_back", 'stop "a much longer answer than that"', 'click link "x"', "scroll down", 'press "Enter"')


def fitted(model, *, seed=0, **settings):
    samples = [(model.prompt_ids(text), model.reply_ids(reply)) for text, reply in zip(TEXTS, REPLIES)]

    def loss(batch):
        return -model.token_log_probs(*zip(*batch))[0].sum(-1)

    settings = {"epochs": 2, "rate": 1e-3, "batch_size": 5, "micro_batch_tokens": 4096, "optimizer": "adamw", **settings}
    last = fit(model.model, samples, loss, np.random.default_rng(seed), **settings)
    return last, model.model.state_dict()


def test_how_a_batch_is_cut_changes_nothing(tiny_model):
    whole, weights = fitted(tiny_model(), micro_batch_tokens=10**6)
    start = tiny_model().model.state_dict()
    for tokens in (1, 100):
        cut, others = fitted(tiny_model(), micro_batch_tokens=tokens)
        assert cut == pytest.approx(whole, rel=1e-6)
        for name, weight in weights.items():
            # the scores are summed in 32 bits; Adam's first steps have the size of the rate, whatever the gradient's
            torch.testing.assert_close(others[name], weight, rtol=0, atol=2e-5, msg=name)
            assert not torch.equal(weight, start[name]), name


def test_the_order_of_samples_is_the_runs_own(tiny_model):
    first, same, other = (fitted(tiny_model(), batch_size=2, seed=seed)[1] for seed in (0, 0, 1))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_fitting_lowers_the_loss_and_nothing_to_fit_is_no_loss(tiny_model):
    model = tiny_model()
    before, _ = fitted(model)
    after, _ = fitted(model)
    assert after < before
    settings = {"epochs": 1, "rate": 1, "batch_size": 1, "micro_batch_tokens": 1}
    assert math.isnan(fit(model.model, [], None, np.random.default_rng(0), **settings))


def test_a_falling_rate_falls_in_a_straight_line():
    # f(w) = c·w has the gradient c, and AdamW's step is then the rate itself, so w shows the sum of the rates
    weight = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(weight.weight)
    settings = {"epochs": 2, "rate": 0.1, "batch_size": 1, "micro_batch_tokens": 1, "optimizer": "adamw"}
    samples = [([0],), ([0],)]

    def loss(batch):
        return weight(torch.ones(len(batch), 1))[:, 0]

    fit(weight, samples, loss, np.random.default_rng(0), **settings)
    assert weight.weight.item() == pytest.approx(-0.1 * (1 + 0.75 + 0.5 + 0.25), rel=1e-5)
    torch.nn.init.zeros_(weight.weight)
    fit(weight, samples, loss, np.random.default_rng(0), schedule="constant", **settings)
    assert weight.weight.item() == pytest.approx(-0.4, rel=1e-5)


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_newton_schulz_keeps_the_directions_and_evens_the_lengths(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ orthogonal(matrix) @ v.T  # diagonal: the same singular vectors
    lengths = inner.diagonal()
    assert 0.6 < lengths.min() and lengths.max() < 1.25
    torch.testing.assert_close(inner, torch.diag(lengths), atol=1e-9, rtol=0)


def test_muon_is_torchs_but_for_the_precision():
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(w) for w in torch.randn(1, 8, 5).repeat(2, 1, 1))
    optimizers = [Muon([ours], lr=0.1), torch.optim.Muon([theirs], lr=0.1, weight_decay=0.0)]
    for step in range(3):
        gradient = torch.randn(8, 5)
        for p, optimizer in zip((ours, theirs), optimizers):
            p.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours, theirs, atol=0.02, rtol=0)  # bfloat16 holds two digits


def test_muon_takes_the_matrices_and_adamw_the_rest(tiny_model):
    model = tiny_model().model
    muon, adamw = make_optimizers(model, 1e-3, "muon")
    (matrices,), (rest,) = muon.param_groups, adamw.param_groups
    assert matrices["lr"] == pytest.approx(1e-2) and rest["lr"] == pytest.approx(1e-3)
    assert {p.ndim for p in matrices["params"]} == {2}
    assert any(p is model.get_input_embeddings().weight for p in rest["params"])
    assert len(matrices["params"]) + len(rest["params"]) == len(list(model.parameters()))
