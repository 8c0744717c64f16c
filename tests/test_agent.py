"""What the agent is asked, and what it makes of the replies."""

import pytest

from agent import DEMONSTRATIONS, Agent, Metered, action_of, with_milestones
from environment.rollout import Episode
from experiments.milestones import plan
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


def test_a_trained_policy_is_asked_as_in_its_training(tiny_model):
    episode, model = episode_of("A", "B", z=[[0, 0], [1, 0], [0, 0]]), tiny_model()
    asked = Agent(model, patience=1).prompt(episode, Reflection((True, False), achieved="the first"))
    assert asked == model.policy_prompt("Do it", [step.action for step in episode.steps], episode.observation)
    model.model.config.knows_milestones = True
    asked = Agent(model, patience=1).prompt(episode, Reflection((True, False), achieved="the first"))
    assert "milestones:\n[x] one\n[ ] two\ntask: Do it\naction:\n" in asked and "achieved" not in asked and "anew" not in asked
    assert asked == model.policy_prompt("Do it", [step.action for step in episode.steps], episode.observation, plan(episode))


def test_a_loop_is_seen_before_patience_runs_out_and_only_since_z_last_grew():
    agent = Agent(ScriptedModel([]), patience=9)
    assert len(agent.fruitless(episode_of("A", "B", "B", "B", z=[[0, 0]] * 5))) == 4
    assert agent.fruitless(episode_of("A", "B", "B", "B", z=[[0, 0]] * 3 + [[1, 0]] * 2)) == []
    assert agent.fruitless(episode_of(z=[[0, 0]])) == []


def test_an_unjudged_step_keeps_the_last_z():
    agent = Agent(ScriptedModel([]), AutoRater(ScriptedModel(["I cannot say.", "Sorry."]), "off"))
    assert agent.reflect(episode_of("A", z=[[1, 0]])).z == (True, False)


# --- replies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply, action, reason",
    [
        (Reply('click link "A"'), Action("click", "link", "A"), ""),
        (Reply('It is\n the only way.\n\nclick link "A"\n'), Action("click", "link", "A"), "It is the only way."),
        (Reply("I do not know."), Action("invalid", text="I do not know."), ""),
        (Reply('First click link "B", then\nclick link "A"', cut=True), "the reply was cut off", ""),  # it was still thinking
    ],
)
def test_a_replys_action_and_its_reason(reply, action, reason):
    found, said = action_of(reply)
    assert said == reason
    assert found == action if isinstance(action, Action) else (found.kind == "invalid" and found.text.startswith(action))


def test_a_meter_counts_what_its_model_writes():
    class Writer(ScriptedModel):
        def generate(self, prompts, **settings):
            return [Reply(reply.text, tokens=len(reply.text)) for reply in super().generate(prompts, **settings)]

    meter = Metered(Writer(["four", "seventy"]))
    assert meter.generate(["p"], temperature=0.0, max_new_tokens=9)[0].text == "four" and meter.tokens == 4
    meter.generate(["p"])
    assert meter.tokens == 11


def test_milestones_are_made_with_the_sites_demonstrations_or_some_of_each_site():
    class Teacher(ScriptedModel):
        def generate(self, prompts, **settings):
            self.asked = prompts[0]
            return super().generate(prompts, **settings)

    reply = "1. a\n2. b\n3. c\n4. d"
    orders = []
    for sites, intent, expected in [(("map",), "Go", EXAMPLES["map"]), (("map",), "Stay", EXAMPLES["map"]), ((), "Go", DEMONSTRATIONS)]:
        task = Task("t", sites, intent, "/", {}, subgoals=("of", "its", "own", "task"), subgoal_checks=({"path": "/"},) * 4)
        teacher = Teacher([reply])
        made = with_milestones(Episode(task, 0, observation=Observation("Home", "/", "now")), teacher)
        assert made.subgoals == ("a", "b", "c", "d") and made.subgoal_checks == ()
        places = [teacher.asked.index(f"Task: {example['intent']}\n") for example in expected]
        assert teacher.asked.count("\nTask: ") == len(expected) + 1 and places != sorted(places)
        orders.append(sorted(range(len(places)), key=places.__getitem__))
    assert orders[0] != orders[1]
