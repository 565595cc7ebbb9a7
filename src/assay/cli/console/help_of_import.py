"""The help text of `assay import`."""

IMPORT = {
    "import": """Bring cases, checks and results of another tool.

\b
    assay import promptfoo-folder -o capitals
    assay import results.json --save
    assay import --list

It writes a folder with cases or recorded outputs, checks, and import.json, and prints the commands that go on from
there. What cannot be carried is named on standard error and in import.json, with its place and the reason. No code and
no template of a file is run, and no model is called. Scores of the other tool are kept beside those of assay, in
`output.metadata.recorded`.

Exit codes: 0 imported; 1 with --save, a check was not measured; 2 wrong usage, or a file that cannot be read; 3 with
--strict, something was not carried.
""",
}
