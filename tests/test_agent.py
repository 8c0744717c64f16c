"""What the agent is asked, and what it makes of the replies."""

import json

import pytest

from agent import DEMONSTRATIONS, Agent, Metered, action_of, with_milestones
from environment.rollout import Episode
from language_model import Reply, ScriptedModel
from milestoning import AutoRater, Reflection
from subgoals import EXAMPLES
from trajectory import Action, Observation, Step, Task


def episode_of(*actions, z):
    steps = [Step(Observation("Home", "/", f"page {i}"), Action("click", "link", name)) for i, name in enumerate(actions)]
    task = Task("own", (), "Do it", "http://a.example", {"eval_types": []}, subgoals=("one", "two"))
    return Episode(task, 0, steps=steps, observation=Observation("Home", "/", "now"), z=[tuple(map(bool, row)) for row in z])


def test_the_prompt_has_the_checklist_the_answers_and_the_call_to_plan_anew():
    agent = Agent(ScriptedModel([]), patience=2)
    reflection = Reflection((True, False), achieved="the first", next="the second")
    moving = agent.prompt(episode_of("A", "B", z=[[0, 0], [0, 0], [1, 0]]), reflection)
    assert "milestones:\n[x] one\n[ ] two\nachieved: the first\nnext: the second\ncurrent milestone: two\ntask: Do it\naction:\n" in moving
    standing = agent.prompt(episode_of("A", "B", "C", z=[[0, 0], [1, 0], [1, 0], [1, 0]]), reflection)
    assert "No milestone was reached in the last 2 steps." in standing and "Plan anew for this milestone: two" in standing
    plain = Agent(ScriptedModel([]), milestones=False).prompt(episode_of("A", z=[[0, 0], [0, 0]]), reflection)
    assert "milestones:" not in plain and "achieved" not in plain


def test_a_loop_is_seen_before_patience_runs_out_and_only_since_z_last_grew():
    agent = Agent(ScriptedModel([]), patience=9)
    assert len(agent.fruitless(episode_of("A", "B", "B", "B", z=[[0, 0]] * 5))) == 4
    assert agent.fruitless(episode_of("A", "B", "B", "B", z=[[0, 0]] * 3 + [[1, 0]] * 2)) == []
    assert agent.fruitless(episode_of(z=[[0, 0]])) == []


def test_an_unjudged_step_keeps_the_last_z():
    agent = Agent(ScriptedModel([]), AutoRater(ScriptedModel(["I cannot say.", "Sorry."]), "off"))
    assert agent.reflect(episode_of("A", z=[[1, 0]])).z == (True, False)
