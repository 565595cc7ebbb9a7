"""The help text of `assay conform`."""

CONFORM = {
    "conform": """Check whether a host keeps the protocols it offers.

\b
    assay conform http://127.0.0.1:8321 --other-key @other.key
    assay conform http://127.0.0.1:8321 --agent local.assay.conform
    assay conform http://127.0.0.1:8321 --grpc 127.0.0.1:8322
    assay conform --explain fep.rest.reads-back
    assay conform --shape suite.json --shape events.jsonl

Any FEP server and any OpenWOP host will do, in any language. The checks see it from outside: each has a rule with its
place in the text, and is passed, failed, not offered, or could not be tried. Requests go to these addresses alone,
redirects are not followed, and what the checks made is deleted at the end.

\b
Exit codes:
  0  no check failed
  1  the host does not answer
  2  wrong usage
  3  a check failed; with --strict, also if one could not be tried, or if none passed
""",
}
