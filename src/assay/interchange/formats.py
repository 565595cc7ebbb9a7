"""The formats that `assay import` knows: one module each."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from assay.errors import UsageError
from assay.interchange import datasets, every_eval_ever, inspect_log, lm_eval, openai_evals
from assay.interchange.imported import Reader
from assay.interchange.promptfoo import files as promptfoo
from assay.interchange.sources import Candidate, candidate, folder_file
from assay.ports import Limits


class Format(NamedTuple):
    """A format: what its files are, how they are recognised, and how they are read."""

    name: str
    files: str
    recognises: Callable[[Candidate], bool]
    read: Reader


FORMATS: tuple[Format, ...] = (
    Format(
        "promptfoo",
        "a folder with promptfooconfig.yaml, a configuration, or results (.json, .jsonl)",
        promptfoo.recognises,
        promptfoo.read,
    ),
    Format(
        "openai-evals",
        "an eval with its graders (.json), with items or output items of a run (.jsonl, .json)",
        openai_evals.recognises,
        openai_evals.read,
    ),
    Format("inspect", "logs (.eval, .json)", inspect_log.recognises, inspect_log.read),
    Format(
        "lm-evaluation-harness",
        "samples (.jsonl), with results (.json)",
        lm_eval.recognises,
        lm_eval.read,
    ),
    Format(
        "every-eval-ever",
        "instances of 0.3 (.jsonl), with their aggregate (.json)",
        every_eval_ever.recognises,
        every_eval_ever.read,
    ),
    *(
        Format(
            name,
            "datasets (.json, .jsonl, .yaml, .csv)",
            partial(datasets.recognises, name=name),
            datasets.reader_of(name),
        )
        for name in datasets.DATASETS
    ),
)
NAMES = tuple(one.name for one in FORMATS)


def format_named(name: str) -> Format:
    """The format with this name."""
    for one in FORMATS:
        if one.name == name:
            return one
    raise UsageError(f"--from {name[:100]!r}: there is no such format; there are {', '.join(NAMES)}")


def find_files(files: Sequence[str]) -> list[str]:
    """The files, with a folder replaced by the configuration in it."""
    return [folder_file(one, promptfoo.CONFIGS) for one in files]


def recognise(files: Sequence[str], limits: Limits) -> Format:
    """The format of all files, from their beginnings. Files of several formats are refused."""
    found = {one: _recognise(candidate(one, limits)) for one in files}
    kinds = set(found.values())
    if len(kinds) > 1:
        listed = ", ".join(f"{name}: {one.name}" for name, one in found.items())
        raise UsageError(f"expected files of one tool, got {listed}; import them one by one")
    return kinds.pop()


def _recognise(one: Candidate) -> Format:
    for known in FORMATS:
        if known.recognises(one):
            return known
    members = ", ".join(sorted(one.members)[:8])
    got = f"a {one.format} file" + (f" with {members}" if members else "")
    raise UsageError(
        f"{one.name}: expected a file of {', '.join(NAMES)}, got {got[:200]}; name the tool with --from,"
        " and see `assay import --list`"
    )
