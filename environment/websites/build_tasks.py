"""Write PocketArena's task files: ``python -m environment.websites.build_tasks``.

How many tasks of which kind each site gets is a table, after WebArena-Lite's counts and proportions; the pool has the same
proportions.  Evaluation and pool use worlds of disjoint seeds, so no answer can be remembered, and share no intent.
"""

from __future__ import annotations

import dataclasses
import json

from environment.tasks import GOALS, HELD_OUT, MULTI_SITE, SPLITS, TASK_FOLDER, first_suitable, goal, templates
from environment.websites import SITES
from trajectory import Task

GROUPS = (*SITES, MULTI_SITE)
KINDS = (*GOALS.values(), "both")
EVALUATION = {  # tasks of (templates that the pool has too, held-out templates)
    #               answer    state    page     both
    "shop_admin": ((14, 3), (8, 2), (4, 0), (2, 2)),
    "map":        ((10, 3), (6, 0), (3, 0), (2, 2)),
    "shop":       ((17, 4), (9, 3), (5, 0), (5, 2)),
    "forum":      ((7, 2),  (6, 0), (1, 1), (2, 0)),
    "gitlab":     ((10, 4), (7, 2), (2, 1), (4, 0)),
    MULTI_SITE:   ((3, 1),  (4, 1), (1, 0), (0, 0)),
}  # fmt: skip
POOL = 1573  # as the paper's (section 5.4)
FIRST_SEED = {"evaluation": 1_000_000, "pool": 2_000_000}
TRIES = 20  # worlds looked at for a new intent; some templates, such as a count, have one for all worlds


def counts() -> dict[str, dict[tuple[str, str, bool], int]]:
    """{split: {(group, kind of goal, of held-out templates): tasks}}; the pool's by largest remainder."""
    evaluation, exact = {}, {}
    scale = POOL / sum(sum(cell) for row in EVALUATION.values() for cell in row)
    for group, row in EVALUATION.items():
        for kind, (shared, held_out) in zip(KINDS, row):
            evaluation |= {(group, kind, False): shared, (group, kind, True): held_out}
            exact[group, kind, False] = (shared + held_out) * scale
    pool = {cell: int(share) for cell, share in exact.items()}
    for cell in sorted(exact, key=lambda cell: pool[cell] - exact[cell])[: POOL - sum(pool.values())]:
        pool[cell] += 1
    return {"evaluation": evaluation, "pool": pool}


def build() -> dict[str, list[Task]]:
    """The tasks of both splits; within a cell of the table its templates take turns."""
    cells: dict[tuple[str, str, bool], list[str]] = {}
    for template in templates():
        kind = goal(first_suitable(template, range(200)))
        cells.setdefault((template.split("/")[0], kind, template in HELD_OUT), []).append(template)
    built: dict[str, list[Task]] = {}
    for split in SPLITS:
        taken, wanted = {task.intent for tasks in built.values() for task in tasks}, counts()[split]
        built[split] = []
        for group in GROUPS:
            chosen = [cells[cell][i % len(cells[cell])] for cell, count in wanted.items() if cell[0] == group for i in range(count)]
            built[split] += _tasks(group, split, chosen, taken)
    return built


def _tasks(group: str, split: str, chosen: list[str], taken: set[str]) -> list[Task]:
    seed, seen, tasks = FIRST_SEED[split] + 100_000 * GROUPS.index(group), set(), []
    for number, template in enumerate(chosen):
        task = _new(template, seed, f"{group}-{split[:4]}-{number:03d}", taken, seen)
        seed = task.world + 1
        seen.add(task.intent)
        tasks.append(task)
    return tasks


def _new(template: str, seed: int, task_id: str, taken: set[str], seen: set[str]) -> Task:
    """A task with an intent that is not in `taken`, and if possible not in `seen` either."""
    spare = None
    for _ in range(TRIES):
        task = first_suitable(template, range(seed, seed + 200), task_id=task_id)
        seed = task.world + 1
        if task.intent not in taken:
            if task.intent not in seen:
                return task
            spare = spare or task
    if spare is None:
        raise ValueError(f"{template}: every intent is taken")
    return spare


def main() -> None:
    TASK_FOLDER.mkdir(exist_ok=True)
    for split, tasks in build().items():
        entries = [json.dumps(dataclasses.asdict(task), ensure_ascii=False) for task in tasks]
        (TASK_FOLDER / f"{split}.json").write_text("[\n" + ",\n".join(entries) + "\n]\n", encoding="utf-8")
        print(f"{split}: {len(tasks)} tasks")


if __name__ == "__main__":
    main()
