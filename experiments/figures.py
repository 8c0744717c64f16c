"""The figures of section 6, drawn from plain numbers: dicts and lists in, a PNG out.

Each function takes its data first and the path second, and returns the path.  matplotlib is imported when a figure is
drawn, and without its global state, so this works on a machine without a display and beside other plots.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Mapping, Sequence

from evaluation import subgoal_completion_map
from trajectory import read_trajectories

# The first colour is for the method at hand, greys and muted tones for what it is compared with.
COLOURS = ("#1f5a8a", "#c8702a", "#7a7a7a", "#5f9e6e", "#9a6fb0", "#b5a642")
INK, FAINT = "#333333", "#dddddd"
WIDTH = 7.2  # inches; at 200 dots an inch, twice the width of a README


def success_by_phase(curves: Mapping[str, Sequence], path: str | Path) -> Path:
    """Success rate over the phases, one line a method, with its interval as a band.  (Fig. 10a)

    curves     {method: one entry a phase, from phase 0 on: a rate, or (rate, low, high)}, all in [0, 1]; NaN = no data
    """
    figure = _figure(3.6)
    axes = figure.add_subplot()
    _draw_curves(axes, curves, top=_top_of(curves))
    axes.set_xlabel("Phase")
    axes.set_ylabel("Success rate")
    return _save(figure, path)


def success_by_site(sites: Mapping[str, Mapping[str, Sequence]], path: str | Path) -> Path:
    """Success rate over the phases, one small panel a site, on one scale.  (Fig. 10b)

    sites      {site: curves as in `success_by_phase`}
    """
    columns = min(3, len(sites))
    rows = math.ceil(len(sites) / columns)
    figure = _figure(2.0 * rows + 0.4)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    names = dict.fromkeys(method for curves in sites.values() for method in curves)
    methods = {method: COLOURS[i % len(COLOURS)] for i, method in enumerate(names)}
    top = max(map(_top_of, sites.values()))
    for axes, (site, curves) in zip(grid, sites.items()):
        _draw_curves(axes, curves, top=top, colours=methods, labels=False)
        axes.set_title(site.replace("_", " "), loc="left", fontsize=10, color=INK)
    for i, axes in enumerate(grid):
        axes.set_visible(i < len(sites))
        if i < len(sites) <= i + columns:
            axes.set_xlabel("Phase")
            axes.tick_params(labelbottom=True)
    figure.supylabel("Success rate", fontsize=10, color=INK)
    handles = [_line(colour) for colour in methods.values()]
    figure.legend(handles, methods, loc="outside upper left", ncols=len(methods), frameon=False, labelcolor="linecolor")
    return _save(figure, path)


def failure_modes(shares: Mapping[str, Mapping[str, float]], path: str | Path) -> Path:
    """What became of the episodes: one stacked bar a phase (or a method), one colour a failure mode.  (Fig. 13)

    shares     {phase: {mode: share in [0, 1]}}; shares of all episodes leave the successes as the bar's open end,
               shares of the failed ones fill it
    """
    modes = list(dict.fromkeys(mode for bar in shares.values() for mode in bar))
    figure = _figure(0.45 * len(shares) + 1.2)
    axes = figure.add_subplot()
    left = dict.fromkeys(shares, 0.0)
    for i, mode in enumerate(modes):
        colour = COLOURS[i % len(COLOURS)]
        for row, (bar, values) in enumerate(shares.items()):
            share = values.get(mode, 0.0)
            axes.barh(row, share, left=left[bar], height=0.72, color=colour, edgecolor="white", linewidth=1.2)
            if share >= 0.05:  # narrower than its own label
                axes.text(left[bar] + share / 2, row, f"{share:.0%}", color="white", ha="center", va="center", fontsize=9)
            left[bar] += share
    axes.set_yticks(range(len(shares)), list(shares))
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.0, *left.values()))
    axes.xaxis.set_visible(False)
    _clean(axes, left=False, bottom=False)
    handles = [_line(COLOURS[i % len(COLOURS)], width=8) for i in range(len(modes))]
    names = [mode.replace("_", " ") for mode in modes]
    figure.legend(handles, names, loc="outside upper left", ncols=len(modes), frameon=False, handlelength=0.8)
    return _save(figure, path)


def subgoal_maps(maps: Mapping[str, Sequence[Sequence[float]]], path: str | Path) -> Path:
    """Share of episodes by sub-goals done (across) and time in the episode (down), a panel a phase.  (Fig. 12)

    maps       {phase: [bins][K+1], as ``evaluation.subgoal_completion_map`` gives}
    """
    figure = _figure(3.2)
    panels = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
    for axes, (phase, rows) in zip(panels, maps.items()):
        image = axes.imshow(rows, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_title(phase, loc="left", fontsize=10, color=INK)
        axes.set_xticks(range(len(rows[0])))
        axes.set_yticks([0, len(rows) - 1], ["start", "end"])
        axes.set_xlabel("Sub-goals done")
        _clean(axes, left=False, bottom=False)
    panels[0].set_ylabel("Time in the episode")
    bar = figure.colorbar(image, ax=panels, ticks=[0, 0.5, 1], format=_percent, shrink=0.8, aspect=14, pad=0.02)
    bar.set_label("Share of episodes", color=INK)
    bar.ax.tick_params(length=0, labelcolor=INK)
    bar.outline.set_visible(False)
    return _save(figure, path)


def picture_grid(pictures: Mapping[str, object], path: str | Path) -> Path:
    """Pictures of pages, two a row, each under its name: {name: a PNG file, opened or by its path}."""
    from matplotlib.image import imread

    rows = math.ceil(len(pictures) / 2)
    figure = _figure(2.2 * rows)
    grid = figure.subplots(rows, 2, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()
    for axes, (name, png) in zip(grid, pictures.items()):
        axes.imshow(imread(png, format="png"))
        axes.set_title(name.replace("_", " "), loc="left", fontsize=9, color=INK)
    return _save(figure, path)


# --- the report of a run ---------------------------------------------------------------------------------------------


def write_report(folder: str | Path) -> None:
    """The figures of a finished run, from its ``metrics.jsonl`` and evaluation episodes, into its folder; prints a table."""
    folder = Path(folder)
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    curve = [(record["success"], *record["interval"]) for record in records]
    success_by_phase({folder.name: curve}, folder / "success_by_phase.png")
    sites = {site: {folder.name: [record["by_site"][site] for record in records]} for site in records[0]["by_site"]}
    success_by_site(sites, folder / "success_by_site.png")
    shares = {f"phase {r['phase']}": {m: v * (1 - r["success"]) for m, v in r["failure_modes"].items()} for r in records}
    failure_modes(shares, folder / "failure_modes.png")
    maps = {
        f"Phase {phase}": subgoal_completion_map(read_trajectories(folder / f"phase-{phase}" / "evaluation.jsonl")).tolist()
        for phase in sorted({0, len(records) // 2, len(records) - 1})
    }
    subgoal_maps(maps, folder / "subgoal_completion.png")
    print(f"\n{'phase':>5} {'success':>8}  {'95% interval':<15} " + " ".join(f"{site:>10}" for site in sites))
    for record, (rate, low, high) in zip(records, curve):
        cells = " ".join(f"{record['by_site'][site]:>10.0%}" for site in sites)
        print(f"{record['phase']:>5} {rate:>8.1%}  [{low:.1%}, {high:.1%}]".ljust(32) + cells)
    print(f"\nfigures: {', '.join(sorted(str(path) for path in folder.glob('*.png')))}")


# --- how they are drawn --------------------------------------------------------------------------------------------


def _rows(entries):
    """(rate, low, high) of each phase; a rate alone has no interval."""
    return [tuple(entry) if hasattr(entry, "__len__") else (entry, math.nan, math.nan) for entry in entries]


def _top_of(curves):
    """Where the vertical axis ends: a little above everything drawn."""
    heights = [x for entries in curves.values() for row in _rows(entries) for x in row if not math.isnan(x)]
    return min(1.05 * max(heights, default=1.0), 1.03) or 1.0


def _draw_curves(axes, curves, *, top, colours=None, labels=True):
    """Lines with bands; each labelled at its end, or not at all."""
    colours = colours or {method: COLOURS[i % len(COLOURS)] for i, method in enumerate(curves)}
    ends = {}
    for method, entries in curves.items():
        rates, lows, highs = zip(*_rows(entries))
        phases = range(len(rates))
        axes.fill_between(phases, lows, highs, color=colours[method], alpha=0.15, linewidth=0)
        axes.plot(phases, rates, color=colours[method], linewidth=2, marker="o", markersize=4)
        known = [rate for rate in rates if not math.isnan(rate)]
        if known:
            ends[method] = known[-1]
    longest = max((len(entries) for entries in curves.values()), default=1)
    axes.set_xticks(range(longest))
    axes.set_xlim(-0.15, longest - 0.85)
    axes.set_ylim(0, top)
    axes.yaxis.set_major_formatter(_percent)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    _clean(axes, left=False)
    if labels:
        heights = _spread(list(ends.values()), gap=0.055 * top)
        for (method, rate), height in zip(ends.items(), heights):
            label = dict(xytext=(10, 0), textcoords="offset points", va="center", annotation_clip=False)
            axes.annotate(f"{method}  {rate:.0%}", (longest - 1, height), color=colours[method], **label)


def _spread(heights, gap):
    """`heights` moved apart to at least `gap`, in their order, about where they were.

    >>> [round(float(h), 2) for h in _spread([0.5, 0.52, 0.9], gap=0.1)]
    [0.46, 0.56, 0.9]
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    clusters = []  # [indices, centre]: labels that touch are stacked about their common centre
    for i in order:
        clusters.append([[i], heights[i]])
        while len(clusters) > 1 and _bottom(clusters[-1], gap) - _top(clusters[-2], gap) < gap - 1e-12:
            indices = clusters[-2][0] + clusters[-1][0]
            clusters[-2:] = [[indices, sum(heights[j] for j in indices) / len(indices)]]
    placed = dict.fromkeys(order, 0.0)
    for cluster in clusters:
        for rank, i in enumerate(cluster[0]):
            placed[i] = _bottom(cluster, gap) + rank * gap
    return [placed[i] for i in range(len(heights))]


def _bottom(cluster, gap):
    return cluster[1] - gap * (len(cluster[0]) - 1) / 2


def _top(cluster, gap):
    return cluster[1] + gap * (len(cluster[0]) - 1) / 2


def _percent(value, _position=None):
    return f"{value:.0%}"


def _line(colour, width=2):
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linewidth=width)


def _figure(height):
    from matplotlib.figure import Figure  # not pyplot: no window, no global state

    return Figure(figsize=(WIDTH, height), dpi=200, layout="constrained")


def _clean(axes, *, left=True, bottom=True):
    """Leave the lines that carry something."""
    axes.tick_params(length=0, labelcolor=INK, labelsize=9)
    for side, keep in {"top": False, "right": False, "left": left, "bottom": bottom}.items():
        axes.spines[side].set_visible(keep)
        axes.spines[side].set_color(FAINT)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)


def _save(figure, path) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", facecolor="white")
    return path


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_report(name)
