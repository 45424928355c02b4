"""What each result file says, as markdown: one function a file, listed at the end."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.markdown import Result, duration, figures_summary, goals, provenance, table, times, verdict


@dataclass(frozen=True)
class Section:
    """How one result file becomes a section of the documents."""

    source: str
    """The result file, relative to results/."""
    title: str
    write: Callable[[Result], str]
    """The whole of it, for docs/results.md."""
    summary: Callable[[Result], str] | None = None
    """What README shows of it, if anything."""


def kernels(result: Result) -> str:
    """Everything ``benchmarks/kernels.py`` stored."""
    figures = result["figures"]
    seconds = [
        [each["what"], each["at"], ", ".join(f"{name} {duration(spent)}" for name, spent in each["seconds"].items())]
        for each in figures
    ]
    opponents = [[f"`{name}`", what] for name, what in result["opponents"].items()]
    return "\n\n".join(
        (
            "A layer step is forward and backward of two generator MLPs (one hidden layer of 2N), selector, B, "
            "selection, scan and linear readout, in float32, with D = N and every input distinct unless the row says "
            "otherwise. Two parties of a row are measured in turns, in one process.",
            provenance(result),
            goals(figures),
            "The medians behind the ratios:",
            table(["what", "at", "seconds"], seconds),
            "The opponents, all in `benchmarks/opponents/`; those that compute a PD layer have been checked to give "
            "the same gradients in float64:",
            table(["name", "what it is"], opponents),
        )
    )


def layer(result: Result) -> str:
    """Everything ``benchmarks/layer.py`` stored."""
    return "\n\n".join(
        (
            "Width and state size 128, K = 6, float32: the train step is forward and backward on dense input, the "
            "streaming step one token of one sequence, without gradients. Variants of a kind are measured in turns, in "
            "one process.",
            provenance(result),
            goals(result["figures"]),
        )
    )


def training(result: Result) -> str:
    """Everything ``benchmarks/training.py`` stored."""
    return "\n\n".join(
        (
            "A step of the published formal-language protocol, from drawing the batch to the optimiser's step, on "
            "parity. The LSTMs, packed as well as padded to the longest word, have the same width and run under the "
            "same loop; all three are measured in turns.",
            provenance(result),
            goals(result["figures"]),
        )
    )


def frozen(result: Result) -> str:
    """Everything ``benchmarks/frozen.py`` stored."""
    freezing = [
        [
            each["dictionary"],
            f"{each['size']:,}",
            duration(each["seconds"]),
            f"{each['mean_candidates']:.1f}",
            f"{each['most_candidates']:,}",
        ]
        for each in result["freezing"]
    ]
    selecting = [
        [each["dictionary"], f"{each['size']:,}", f"{each['transitions']:,}", duration(each["seconds"]["full"]),
         duration(each["seconds"]["frozen"]), f"{each['ratio']:.1f}x", f"{each['must']:g}x",
         verdict(each)]
        for each in result["selecting"]
    ]  # fmt: skip
    return "\n\n".join(
        (
            "`freeze()` lists, once, the rows of each column that can be the argmax for any scores; the selection then "
            "searches only those, to the same bits. K = 6.",
            provenance(result),
            table(["dictionary", "N", "time to freeze", "candidates a column, mean", "most"], freezing),
            table(["dictionary", "N", "tokens", "full search", "frozen", "faster", "must reach", "met"], selecting),
        )
    )


def runtime(result: Result, plots: str) -> str:
    """Everything ``benchmarks/runtime.py`` stored; the plots lie in a folder under results/."""
    parts = [
        "Forward pass of one layer, batch 1: by its associative scan, as the paper measures, and by its best algorithm "
        f"on this device. Plots: [times and ratios](../results/{plots}).",
        provenance(result),
        goals(result["figures"]),
        "Where the paper prints a ratio, from its A100 and by associative scan:",
        _beside_the_paper(result["ratios"]),
        "All widths, each side by its best algorithm:",
        _by_width(result["ratios"]),
        "Cost of the scan alone, fitted as time ~ L^a N^b:",
        _exponents(result["exponents"]),
    ]
    if result["skipped"]:
        header = [str(key) for key in result["skipped"][0]]
        rows = [[str(value) for value in each.values()] for each in result["skipped"]]
        parts += ["Cells left out, and why:", table(header, rows)]
    return "\n\n".join(parts)


def _beside_the_paper(ratios: list[Result]) -> str:
    rows = [
        [each["setting"], each["ratio"], f"{each['D']:,}", f"{each['L']:,}",
         *(times(each.get(key)) for key in ("paper", "associative", "best"))]
        for each in ratios if each["paper"] is not None
    ]  # fmt: skip
    return table(["setting", "ratio of", "D", "L", "paper", "associative", "best"], rows)


def _by_width(ratios: list[Result]) -> str:
    dims = sorted({each["D"] for each in ratios})
    lines: dict[tuple[str, str, int], dict[int, float]] = {}
    for each in ratios:
        if "best" in each:
            lines.setdefault((each["setting"], each["ratio"], each["L"]), {})[each["D"]] = each["best"]
    rows = [
        [setting, ratio, f"{length:,}", *(times(found.get(dim)) for dim in dims)]
        for (setting, ratio, length), found in sorted(lines.items())
    ]
    return table(["setting", "ratio of", "L", *(f"D = {dim:,}" for dim in dims)], rows)


def _exponents(fits: list[Result]) -> str:
    rows = [
        [each["family"], each["algorithm"], f"{each['a']:.2f}", f"{each['b']:.2f}",
         "{}, {}".format(*each["expected"]), f"{each['r_squared']:.3f}"]
        for each in fits
    ]  # fmt: skip
    return table(["family", "scan", "a", "b", "expected a, b", "R^2"], rows)


def mixers(result: Result) -> str:
    """Everything ``benchmarks/mixers.py`` stored: a line a mixer."""
    lines: dict[str, dict[str, Result]] = {}
    for figure in result["figures"]:
        kind, name = figure["what"].split(", ")
        lines.setdefault(name, {})[kind] = figure
    rows = [
        [f"`{name}`", f"{kinds['train step']['value']:.2f}x", verdict(kinds["train step"]),
         kinds["train step"]["measured"].split(", ")[1], kinds["train step"]["at"],
         kinds["streaming step"]["measured"], f"{kinds['streaming step']['seconds']['bytes']:,} B",
         f"{kinds['streaming step']['seconds']['parameters']:,}"]
        for name, kinds in lines.items()
    ]  # fmt: skip
    header = ["mixer", "train step / PD-SSM's", "at most 4x", "a token", "at", "streaming step", "state", "parameters"]
    return "\n\n".join(
        (
            "Width 128, float32, default options: the train step is forward and backward on dense input, each mixer's "
            "measured in turns with PD-SSM's in one process; the streaming step is one token of one sequence.",
            provenance(result),
            table(header, rows),
        )
    )


def table1(result: Result) -> str:
    """Everything ``benchmarks/table1.py`` stored: verdicts, then reasons."""
    entries = result["entries"]
    groups = {each["group"]: each["kind"] for each in entries}
    found = {(each["structure"], each["group"]): each for each in entries}
    mixers = {each["structure"]: ", ".join(f"`{name}`" for name in each["mixers"]) for each in entries}
    verdicts = [
        [structure, names, *(_emulates(found[structure, group]) for group in groups)]
        for structure, names in mixers.items()
    ]
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in entries:
        said = (
            each["reason"]
            if each["verdict"] == "yes"
            else re.sub(r"states \d+ and \d+.*", "two states", each["reason"])
        )
        reasons.setdefault((each["structure"], f"{each['verdict']}: {said}"), []).append(each["group"])
    order = {structure: number for number, structure in enumerate(mixers)}
    wrong = sum(each.get("mistakes", 0) for each in entries)
    steps = next(each["steps"] for each in entries if "steps" in each)
    return "\n\n".join(
        (
            "Can **one layer** track the running product of a group, and with how many dimensions N? Each *yes* is a "
            f"layer that was built and read {result['words']} random words of {result['length']:,} letters "
            f"({steps:,} steps, {wrong} mistakes in all of the table); each *no* has a proof, below; a question mark "
            "is where we know neither. The structures are taken with their gates at the limits (a decay of exactly 1), "
            "and with the block sizes, ranks and numbers of factors of the published comparisons. LSTM, sLSTM and "
            "xLSTM are not linear: with enough units they emulate any automaton. A Transformer of fixed depth tracks "
            "no group that is not solvable at all lengths (unless TC0 = NC1).",
            provenance(result),
            table(["structure", "mixers", *(f"{group} ({kind})" for group, kind in groups.items())], verdicts),
            "Why:",
            table(
                ["structure", "verdict and reason", "groups"],
                ([*why, ", ".join(names)] for why, names in sorted(reasons.items(), key=lambda e: order[e[0][0]])),
            ),
            "Built by [benchmarks/table1.py](../benchmarks/table1.py), tested by "
            "[tests/test_table1.py](../tests/test_table1.py); the diagonal rows are decided by `emulation`, tested by "
            "[tests/test_automata_theory.py](../tests/test_automata_theory.py).",
        )
    )


def _emulates(entry: Result) -> str:
    return {"yes": f"yes, N = {entry.get('size')}", "no": "no", "unknown": "?"}[entry["verdict"]]


def starts(result: Result) -> str:
    """Everything ``benchmarks/starts.py`` stored."""
    return "\n\n".join(
        (
            f"The word problem {result['task']} with the `group` preset, at most {result['budget']:,} steps, for each "
            "way to make the magnitudes and phases of D; docs/layer.md has the formulas. Accuracy in percent of the "
            "labels; seeds side by side.",
            provenance(result),
            starts_table(result),
        )
    )


def starts_table(result: Result) -> str:
    """A line a variant, its seeds side by side."""
    lines: dict[str, list[Result]] = {}
    for run in result["runs"]:
        lines.setdefault(run["row"], []).append(run)
    rows = [
        [name, *(" / ".join(_start_entry(run, entry) for run in runs) for entry in START_COLUMNS)]
        for name, runs in lines.items()
    ]
    return table(["magnitude, phase", *START_COLUMNS.values()], rows)


START_COLUMNS = {
    "step": "99.95 % at step", "best": "best on 40..256", "256": "length 256", "1000": "length 1,000",
    "10000": "length 10,000", "median_distance_from_1": "1 - abs(D), median", "phases_at_0": "phases at exactly 0",
    "largest_phase": "largest phase",
}  # fmt: skip


def _start_entry(run: Result, entry: str) -> str:
    if entry == "step":
        return f"{run['steps']:,}" if run["reason"] == "reached" else "not reached"
    if entry == "best":
        return "no value" if run["best_accuracy"] is None else f"{100 * run['best_accuracy']:.2f}"
    if entry in run.get("by_length", {}):
        return f"{100 * run['by_length'][entry]['accuracy']:.1f}"
    if entry not in run:
        return "no value"
    return f"{100 * run[entry]:.0f} %" if entry == "phases_at_0" else f"{run[entry]:.1g}"


def certify(result: Result) -> str:
    """Everything ``benchmarks/certify.py`` stored."""
    rows = [
        [each["what"], str(each["models"]), str(each["certified"]), _reasons(each), duration(each["seconds"])]
        for each in result["answers"]
    ]
    details = [
        [each["what"], str(seed), answer] for each in result["answers"] for seed, answer in enumerate(each["details"])
    ]
    return "\n\n".join(
        (
            "How many models are proved right for words of every length; docs/certify.md says what a certificate is. A "
            "corrupted model is a compiled one with one transition or one weight changed so that some word is wrong; "
            "no words are tried before the search. Held exact: trained with b = 0 and abs(D) = 1, on words of 1 to 40 "
            "symbols; the other trained models as in benchmarks/certify.py (A5: the `group` preset, at most 6,000 "
            "steps).",
            provenance(result),
            goals([each for each in result["figures"] if each["met"] is not None]),
            table(["models", "number", "certified", "unknown", "seconds of certifying"], rows),
            "Each trained model, and why it was not certified:",
            table(["models", "seed", "answer"], details),
        )
    )


def _reasons(answers: Result) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in answers["unknown"].items())


def automata(result: Result) -> str:
    """Everything ``benchmarks/automata.py`` stored."""
    models = [
        [each["task"], str(each["seed"]), f"{each['steps']:,}", f"{each['seconds']:.0f} s",
         "none" if each["states"] is None else f"{each['states']} of {each['target_states']}",
         "yes" if each["equal"] else f"**no**: {each['verdict']}", each["evidence"],
         f"{100 * each['agreement']:.0f} %",
         "none" if each["shortest_difference"] is None else f"{each['shortest_difference']:,} symbols"]
        for each in result["trained"]
    ]  # fmt: skip
    header = [
        "task",
        "seed",
        "steps",
        "trained in",
        "states",
        "equal to the target",
        "evidence",
        "agreement",
        "first error",
    ]
    phases = [[f"{each['modulo']:,}", f"{each['exact_length']:,}"] for each in result["phases"]]
    return "\n\n".join(
        (
            "Compiled automata read many words side by side, `pdssm` by `fast_forward`, which makes several symbols "
            "one step; automata-lib and `re` read the same words one after the other.",
            provenance(result),
            goals(result["figures"]),
            "Models with 32 components, trained on words of up to 40 symbols, and the automaton extracted from each. "
            "The automaton is right for words of every length, the trained model itself need not be: its agreement is "
            "that on 200 random words of up to 10,000 symbols, the first error the shortest word found on which it is "
            "wrong.",
            table(header, models),
            'Counters as one complex number (`method="phase"`), and the length up to which float32 provably keeps the '
            "count:",
            table(["modulo", "symbols"], phases),
        )
    )


SECTIONS = (
    Section("kernels.json", "Kernels: the speed and memory of one layer step", kernels, figures_summary),
    Section("layer.json", "Layers: training and streaming", layer, figures_summary),
    Section("mixers.json", "Mixers: every competitor's speed, state and size", mixers),
    Section("training.json", "Training: a step of the published protocol", training, figures_summary),
    Section("certify.json", "Certificates", certify),
    Section("frozen.json", "Frozen selection", frozen),
    Section("automata.json", "Automata: compiled, extracted, verified", automata),
    Section("table1.json", "Table 1, executed: what one layer of each structure can track", table1),
    Section("starts.json", "Starts and parametrisations of D", starts),
    Section(
        "runtime.json", "Runtime study: PD, diagonal and dense, CPU", partial(runtime, plots="runtime"), figures_summary
    ),
    Section("layer_gpu.json", "Layers on a GPU", layer),
    Section("runtime_gpu.json", "Runtime study: PD, diagonal and dense, GPU", partial(runtime, plots="runtime_gpu")),
)
