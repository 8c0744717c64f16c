"""The two losses by hand, and critics on a tiny random model."""

import math

import numpy as np
import pytest
import torch

from critics import HEAD_FILE, Critic, potential_loss, value_loss


def tensor(*values):
    return torch.tensor(values)


# --- losses -----------------------------------------------------------------------------------------------------


def test_potential_loss_by_hand():
    # (0.5 − 1)² = 0.25   (0.2 − 0.5)² = 0.09   (1 − 1)² = 0
    torch.testing.assert_close(potential_loss(tensor(0.5, 0.2, 1.0), tensor(1.0, 0.5, 1.0)), tensor(0.25, 0.09, 0.0))


def test_value_loss_by_hand():
    # V = ½ at logit 0: −log ½.   V = ¾ at logit log 3: −log ¾ for a success, −log ¼ for a failure
    losses = value_loss(tensor(0.0, math.log(3), math.log(3)), tensor(1.0, 1.0, 0.0))
    torch.testing.assert_close(losses, tensor(math.log(2), math.log(4 / 3), math.log(4)))


def test_a_confident_critic_is_squashed_once():
    # −log σ(8) = log(1 + e⁻⁸) = 3.35e-4; squashed twice it could not fall below log(1 + e⁻¹) = 0.313
    assert value_loss(tensor(8.0), tensor(1.0)).item() == pytest.approx(math.log1p(math.exp(-8)), rel=1e-4)


def test_a_critic_sure_of_the_wrong_thing_has_a_finite_loss_and_gradient():
    # −log σ(−200) = 200 + log(1 + e⁻²⁰⁰) = 200, with slope σ(−200) − 1 = −1
    logit = tensor(-200.0, 200.0).requires_grad_()
    losses = value_loss(logit, tensor(1.0, 0.0))
    losses.sum().backward()
    torch.testing.assert_close(losses.detach(), tensor(200.0, 200.0))
    torch.testing.assert_close(logit.grad, tensor(-1.0, 1.0))


def test_gradient_of_the_value_loss_is_V_minus_outcome():
    logit = tensor(0.0, math.log(3), -2.0).requires_grad_()
    outcome = tensor(1.0, 0.0, 1.0)
    value_loss(logit, outcome).sum().backward()
    torch.testing.assert_close(logit.grad, logit.detach().sigmoid() - outcome)


def test_a_batch_of_successes_only_is_finite():
    assert torch.isfinite(value_loss(tensor(-3.0, 0.0, 40.0), torch.ones(3))).all()


@pytest.mark.parametrize("loss", [potential_loss, value_loss])
def test_half_precision_and_booleans_are_taken_up_to_single(loss):
    for label in (tensor(True, False), tensor(1, 0), tensor(1.0, 0.0).bfloat16()):
        result = loss(tensor(0.5, 0.25).bfloat16(), label)
        assert result.dtype == torch.float32 and result.shape == (2,)
        torch.testing.assert_close(result, loss(tensor(0.5, 0.25), tensor(1.0, 0.0)))


@pytest.mark.parametrize("loss", [potential_loss, value_loss])
def test_shapes_are_checked(loss):
    for shapes in ([(2,), (3,)], [(2, 1), (2, 1)], [(2, 1), (2,)], [(), ()]):  # (2, 1) and (2,) would broadcast to (2, 2)
        with pytest.raises(ValueError, match=r"\[B\]"):
            loss(torch.zeros(shapes[0]), torch.zeros(shapes[1]))


@pytest.mark.parametrize("success", [1.0, 0.0])
def test_the_best_constant_prediction_is_the_mean(success):
    # d/dV of the mean loss is zero at V = the share of successes; here 3 of 4 (or 1 of 4)
    outcomes = tensor(success, success, success, 1 - success)
    logits = torch.linspace(-3, 3, 601)
    means = torch.stack([value_loss(logit.expand(4), outcomes).mean() for logit in logits])
    assert logits[means.argmin()].sigmoid().item() == pytest.approx(outcomes.mean().item(), abs=2e-3)


# --- critics ----------------------------------------------------------------------------------------------------


def states(model):
    return [model.prompt_ids(text) for text in ("page:\n", "page:\n" + "the quiet harbor\n" * 60, "action:\n")]


def trained(tiny_model, dtype=torch.double):
    """A critic whose head does something."""
    critic = Critic(tiny_model(dtype))
    torch.manual_seed(1)
    torch.nn.init.normal_(critic.head[-1].weight)
    return critic


def test_a_new_head_says_one_half_everywhere_and_can_learn(tiny_model):
    critic = Critic(tiny_model())
    logits = critic(states(critic.tokens))
    assert logits.shape == (3,) and logits.dtype == torch.float32
    assert (logits.sigmoid() == 0.5).all()
    value_loss(logits, tensor(1.0, 1.0, 0.0)).sum().backward()
    assert critic.head[-1].weight.grad.abs().sum() > 0


def test_a_value_does_not_depend_on_the_batch(tiny_model):
    critic = trained(tiny_model)
    prompts = states(critic.tokens)
    together = critic(prompts)
    alone = torch.cat([critic([prompt]) for prompt in prompts])
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(critic(prompts[::-1]), together.flip(0), rtol=1e-6, atol=1e-6)
    assert len(set(together.tolist())) == 3


def test_the_last_token_decides(tiny_model):
    critic = trained(tiny_model)
    first, second = critic(states(critic.tokens)[1:2]), critic([[*states(critic.tokens)[1], 7]])
    assert first.item() != second.item()


def test_gradients_reach_the_backbone(tiny_model):
    critic = trained(tiny_model)
    critic(states(critic.tokens)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in critic.parameters())


def test_a_saved_critic_is_the_same_critic(tiny_model, tmp_path):
    critic = trained(tiny_model, torch.float32).eval()
    critic.save(tmp_path)
    restored = Critic.load(tmp_path, "cpu").eval()
    prompts = states(critic.tokens)
    np.testing.assert_array_equal(critic(prompts).detach(), restored(prompts).detach())
    assert {path.suffix for path in tmp_path.iterdir()} <= {".safetensors", ".json", ".jinja"}


def test_a_language_models_folder_gives_a_critic_with_a_new_head(tiny_model, tmp_path):
    tiny_model(torch.float32).save(tmp_path)
    critic = Critic.load(tmp_path, "cpu")
    assert not (tmp_path / HEAD_FILE).exists()
    assert (critic(states(critic.tokens)) == 0).all()


def test_a_few_steps_tell_two_states_apart(tiny_model):
    critic = Critic(tiny_model(torch.float32))
    prompts, outcomes = states(critic.tokens)[:2], tensor(1.0, 0.0)
    optimizer = torch.optim.AdamW(critic.parameters(), lr=1e-2)
    for _ in range(40):
        optimizer.zero_grad()
        value_loss(critic(prompts), outcomes).mean().backward()
        optimizer.step()
    assert critic(prompts)[0] > 1 and critic(prompts)[1] < -1
