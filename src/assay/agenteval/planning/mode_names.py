"""The modes that assay offers, each with a note. The help, the template of a suite and MODES follow from it."""

MODE_NOTES: dict[str, str] = {
    "golden": "",
    "rubric": "needs a judge",
    "adversarial": "detectors look for safety problems",
    "regression": "with --baseline",
    "live-shadow": "",
}
